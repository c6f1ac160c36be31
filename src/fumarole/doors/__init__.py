"""Listeners and the pump that moves bytes between sockets and sessions. asyncio lives here."""
