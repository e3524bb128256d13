"""Sign-in for people through an OpenID Connect provider."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter()
