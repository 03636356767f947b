"""Creating Projects and checking build prerequisites."""
