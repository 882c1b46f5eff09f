"""What any part uses: errors, files, locks, threads in the background, progress, clocks."""
