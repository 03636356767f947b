"""Lists of the work and the files of a project: jobs, schedules and stored files."""
