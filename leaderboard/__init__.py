"""The service: takes submissions in, has them judged, ranks them, and loses nothing that it acknowledged."""
