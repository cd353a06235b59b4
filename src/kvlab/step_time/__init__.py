"""Step times fitted to measurements: profiles that come with the package, and the fit for a user's own."""
