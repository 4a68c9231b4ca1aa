"""What hardware takes, told without building it. Needs neither torch nor amaranth."""
