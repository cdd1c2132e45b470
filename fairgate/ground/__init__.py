"""What every other room uses: errors, hashing, randomness, atomic files, text, git, CI. Nothing here knows fairness."""
