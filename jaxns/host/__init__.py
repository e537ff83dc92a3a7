"""What lies around a program on the host: compiled programs on disk, options of the compiler, progress bars."""
