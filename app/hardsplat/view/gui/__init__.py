"""The interface of the window: Dear ImGui, drawn by a pass of our own."""
