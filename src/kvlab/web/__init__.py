"""The labs as a page: what it shows (controls, tiles, payload) and the local server behind it."""
