"""The engine: runs Projects and knows no face, lane or Door of ours."""
