"""Edits of splats: what is kept and deleted, turned, scaled and moved, as small JSON files that
can be replayed"""
