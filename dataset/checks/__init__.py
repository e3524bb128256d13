"""What makes a dataset worth measuring on: one check a file."""
