"""Search for networks: accuracy up, look-up tables down; a study that several machines share."""
