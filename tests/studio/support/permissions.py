"""Who may do what: every route of the studio, and what it answers to whom.

The columns are a visitor (with a session, but no account), a reader who owns nothing of what is
asked for, the reader who owns it, a curator and an admin.
Everyone sends the same, well-formed request, with the token of the own session. 303 is a form that
has done its work; 401 asks to log in; 404 for what one may not even know of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.studio.support.people import PASSWORD
from tests.studio.support.worlds import REVIEW, World

ROLES = ("visitor", "reader", "owner", "curator", "admin")

TABLE = """
#                                                     visitor reader owner curator admin
GET    /                                                  200 200 200 200 200
GET    /about                                             200 200 200 200 200
GET    /help                                              200 200 200 200 200
GET    /papers                                            200 200 200 200 200
GET    /claims                                            200 200 200 200 200
GET    /papers/{slug}/claims/{anchor}                     200 200 200 200 200
GET    /source/{path:path}                                200 200 200 200 200
GET    /experiments/{name}/run                            200 200 200 200 200
POST   /experiments/{name}/runs                           401 303 303 303 303
GET    /papers/{slug}                                     200 200 200 200 200
GET    /papers/{slug}/history                             200 200 200 200 200
GET    /figures/{experiment}.{kind}                       200 200 200 200 200
GET    /people/{id}                                       200 200 200 200 200
GET    /institutions/{id}                                 200 200 200 200 200
GET    /topics/{slug}                                     200 200 200 200 200
GET    /map                                               200 200 200 200 200
GET    /map/slice                                         200 200 200 200 200
GET    /map/found                                         200 200 200 200 200
GET    /playground                                        200 200 200 200 200
GET    /playground/polynomial                             200 200 200 200 200
GET    /playground/sequences                              200 200 200 200 200
GET    /playground/couplings                              200 200 200 200 200
GET    /playground/programs                               200 200 200 200 200
GET    /api/v1/playground/polynomial/parse                200 200 200 200 200
GET    /api/v1/playground/polynomial                      200 200 200 200 200
GET    /api/v1/playground/polynomial/trace                200 200 200 200 200
GET    /api/v1/playground/polynomial/surface              200 200 200 200 200
GET    /api/v1/playground/polynomial/model.safetensors    200 200 200 200 200
GET    /api/v1/playground/polynomial/law.v                200 200 200 200 200
GET    /api/v1/playground/polynomial/script.py            200 200 200 200 200
GET    /api/v1/playground/sequences                       200 200 200 200 200
GET    /api/v1/playground/sequences/journey               200 200 200 200 200
GET    /api/v1/playground/sequences/script.py             200 200 200 200 200
GET    /api/v1/playground/couplings                       200 200 200 200 200
GET    /api/v1/playground/programs/script.py              200 200 200 200 200

GET    /papers/{slug}/edit                                401 403 403 200 200
POST   /papers/{slug}/edit                                401 403 403 303 303
GET    /papers/{slug}/export                              200 200 200 200 200
GET    /export                                            200 200 200 200 200

GET    /notices                                           401 200 200 200 200
POST   /notices/read                                      401 303 303 303 303
GET    /papers/{slug}/follow                              401 200 200 200 200
POST   /papers/{slug}/follow                              401 303 303 303 303
GET    /propose                                           401 200 200 200 200
POST   /propose                                           401 200 200 200 200
GET    /proposals                                         401 200 200 200 200
POST   /proposals                                         401 303 303 303 303
POST   /proposals/{id}                                    401 403 403 303 303

GET    /login                                             200 200 200 200 200
POST   /login                                             303 303 303 303 303
GET    /register                                          200 200 200 200 200
POST   /register                                          303 303 303 303 303
POST   /logout                                            303 303 303 303 303
GET    /account                                           401 200 200 200 200
POST   /account/name                                      401 303 303 303 303
POST   /account/password                                  401 303 303 303 303
POST   /account/sessions/end                              401 404 404 404 404
GET    /admin/users                                       401 403 403 403 200
POST   /admin/users/{user_id}/role                        401 403 403 403 303
POST   /admin/users/{user_id}/disabled                    401 403 403 403 303
POST   /admin/users/{user_id}/password                    401 403 403 403 200
GET    /audit                                             401 403 403 200 200

POST   /papers/{slug}/vote                                401 303 303 303 303
POST   /papers/{slug}/reaction                            401 303 303 303 303
POST   /papers/{slug}/save                                401 303 303 303 303
POST   /papers/{slug}/collect                             401 303 303 303 303
POST   /preview                                           401 200 200 200 200
GET    /readers/{handle}                                  200 200 200 200 200
GET    /papers/{slug}/reviews                             200 200 200 200 200
GET    /papers/{slug}/review                              401 200 200 200 200
POST   /papers/{slug}/review                              401 303 303 303 303
GET    /reviews/{review_id}                               200 200 200 200 200
GET    /reviews/{review_id}/history                       200 200 200 200 200
POST   /reviews/{review_id}/delete                        401 403 303 403 403
POST   /reviews/{review_id}/useful                        401 303 422 303 303
GET    /reviews/{review_id}/flag                          401 200 200 200 200
POST   /reviews/{review_id}/flag                          401 303 422 303 303
GET    /papers/{slug}/discussion                          200 200 200 200 200
POST   /papers/{slug}/comments                            401 303 303 303 303
GET    /comments/{comment_id}                             200 200 200 200 200
GET    /comments/{comment_id}/answer                      401 200 200 200 200
GET    /comments/{comment_id}/edit                        401 403 200 403 403
POST   /comments/{comment_id}/edit                        401 403 303 403 403
GET    /comments/{comment_id}/history                     200 200 200 200 200
POST   /comments/{comment_id}/delete                      401 403 303 403 403
POST   /comments/{comment_id}/useful                      401 303 422 303 303
GET    /comments/{comment_id}/flag                        401 200 200 200 200
POST   /comments/{comment_id}/flag                        401 303 422 303 303
GET    /collections                                       401 200 200 200 200
POST   /collections                                       401 303 303 303 303
GET    /collections/{collection_id}                       401 404 200 404 404
POST   /collections/{collection_id}                       401 404 303 404 404
POST   /collections/{collection_id}/sharing               401 404 303 404 404
POST   /collections/{collection_id}/link                  401 404 303 404 404
POST   /collections/{collection_id}/delete                401 404 303 404 404
POST   /collections/{collection_id}/items/{paper_id}/move 401 404 303 404 404
POST   /collections/{collection_id}/items/{paper_id}/note 401 404 303 404 404
POST   /collections/{collection_id}/items/{paper_id}/remove 401 404 303 404 404
GET    /c/{token}                                         200 200 200 200 200
GET    /moderation                                        401 403 403 200 200
POST   /moderation/{flag_id}                              401 403 403 303 303

GET    /collections/{collection_id}/export                401 404 200 404 404
GET    /c/{token}/export                                  200 200 200 200 200

"""

NEWCOMER = {"handle": "newcomer", "password": PASSWORD, "name": "New"}

EXPERIMENT = "yun-softmax"
SOURCE = "tests/algebra/test_ridge_forms.py"
POLYNOMIAL = {"params": {"p": "x^2 + y"}}

CONTENT: dict[str, dict[str, Any]] = {
    "POST /papers/{slug}/edit": {"data": {"title": "Another title"}},
    "GET /map/found": {"params": {"q": "attention"}},
    "GET /api/v1/playground/polynomial/parse": POLYNOMIAL,
    "GET /api/v1/playground/polynomial": POLYNOMIAL,
    "GET /api/v1/playground/polynomial/trace": {"params": {"p": "x^2 + y", "x": "0,0"}},
    "GET /api/v1/playground/polynomial/surface": POLYNOMIAL,
    "GET /api/v1/playground/polynomial/model.safetensors": POLYNOMIAL,
    "GET /api/v1/playground/polynomial/law.v": POLYNOMIAL,
    "GET /api/v1/playground/polynomial/script.py": POLYNOMIAL,
    "POST /papers/{slug}/vote": {"data": {"value": "1"}},
    "POST /papers/{slug}/reaction": {"data": {"show": "useful"}},
    "POST /papers/{slug}/save": {"data": {"on": "true"}},
    "POST /papers/{slug}/collect": {"data": {"title": "New shelf"}},
    "POST /preview": {"data": {"text": "*x*"}},
    "POST /papers/{slug}/review": {"data": REVIEW | {"revision": 2}},
    "POST /reviews/{review_id}/useful": {"data": {"on": "true"}},
    "POST /comments/{comment_id}/useful": {"data": {"on": "true"}},
    "POST /reviews/{review_id}/flag": {"data": {"reason": "why"}},
    "POST /papers/{slug}/comments": {"data": {"body": "Hm."}},
    "POST /comments/{comment_id}/edit": {"data": {"body": "Hm.", "revision": 2}},
    "POST /comments/{comment_id}/flag": {"data": {"reason": "why"}},
    "POST /collections": {"data": {"title": "Shelf"}},
    "POST /collections/{collection_id}": {"data": {"title": "Renamed"}},
    "POST /collections/{collection_id}/sharing": {"data": {"visibility": "private"}},
    "POST /collections/{collection_id}/items/{paper_id}/move": {"data": {"position": 1}},
    "POST /collections/{collection_id}/items/{paper_id}/note": {"data": {"note": "x"}},
    "POST /moderation/{flag_id}": {"data": {"decision": "upheld", "note": "x"}},
    "POST /notices/read": {"data": {"up_to": 5}},
    "POST /papers/{slug}/follow": {"data": {"paper": "true", "claims": ["table-1"]}},
    "POST /propose": {"data": {"what": "1706.99999"}},
    "POST /proposals": {"data": {"title": "On another thing"}},
    "POST /proposals/{id}": {"data": {"state": "accepted"}},
    "POST /login": {"data": {"handle": "ada", "password": PASSWORD}},
    "POST /register": {"data": NEWCOMER},
    "POST /account/name": {"data": {"name": "Another Name"}},
    "POST /account/password": {"data": {"present": PASSWORD, "password": PASSWORD + "!"}},
    "POST /account/sessions/end": {"data": {"session": "0123456789abcdef"}},
    "POST /admin/users/{user_id}/role": {"data": {"role": "curator"}},
    "POST /admin/users/{user_id}/disabled": {"data": {"disabled": "true"}},
}

NAMES = {
    "user_id": "user",
    "review_id": "review",
    "comment_id": "comment",
    "collection_id": "collection",
    "flag_id": "flag",
}
"""Names of parameters of paths, and what of the world they stand for."""


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    method: str
    path: str
    statuses: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class Request:
    """What is sent."""

    method: str
    path: str
    content: dict[str, Any] = field(default_factory=dict)


def rows() -> list[Row]:
    """The table, read."""
    lines = [line.split() for line in TABLE.splitlines() if line and not line.startswith("#")]
    return [Row(method, path, tuple(map(int, rest))) for method, path, *rest in lines]


def _slug(row: Row, world: World) -> str:
    return world.topic if "/topics/" in row.path else world.slug


def request_of(row: Row, world: World) -> Request:
    """A well-formed request for a line."""
    values = vars(world) | {name: getattr(world, thing) for name, thing in NAMES.items()}
    values |= {
        "anchor": "theorem-3-5",
        "experiment": EXPERIMENT,
        "name": EXPERIMENT,
        "slug": _slug(row, world),
    }
    values |= {"id": world.proposal if "/proposals/" in row.path else 1}
    values |= {
        "kind": "png" if "figures" in row.path else "useful",
        "subject_id": values.get(row.path.split("/")[1].rstrip("s")),
    }
    content = CONTENT.get(str(row), {})
    path = row.path.replace("{path:path}", SOURCE)
    return Request(row.method, path.format(**values), content)
