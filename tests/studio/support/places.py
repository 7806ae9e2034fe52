"""Every page of the studio, with who looks at it, for the checks and pictures that all pages share."""

from __future__ import annotations

from dataclasses import dataclass

from tests.studio.support.worlds import World


@dataclass(frozen=True)
class Place:
    """A page; ``ready`` is a selector that is there once its scripts have drawn it."""

    name: str
    path: str
    who: str = "visitor"
    ready: str = "main"
    status: int = 200

    def __str__(self) -> str:
        return self.name

    def address(self, world: World) -> str:
        """Its address, with the names of what there is filled in."""
        return self.path.format(**vars(world))


PLACES = [
    Place("home", "/"),
    Place("login", "/login"),
    Place("register", "/register"),
    Place("papers", "/papers"),
    Place("about", "/about"),
    Place("help", "/help"),
    Place("claims", "/claims"),
    Place("claim", "/papers/{slug}/claims/theorem-3-5"),
    Place("claim-reader", "/papers/{slug}/claims/table-1", "reader"),
    Place("run", "/experiments/fang-figure-2/run", "reader"),
    Place("search", "/papers?q=attention"),
    Place("paper", "/papers/{slug}"),
    Place("paper-reader", "/papers/{slug}", "owner"),
    Place("paper-edit", "/papers/{slug}/edit", "curator"),
    Place("paper-history", "/papers/{slug}/history"),
    Place("person", "/people/1"),
    Place("institution", "/institutions/1"),
    Place("topic", "/topics/{topic}"),
    Place("reviews", "/papers/{slug}/reviews"),
    Place("review", "/reviews/{review}"),
    Place("review-write", "/papers/{slug}/review", "reader"),
    Place("review-history", "/reviews/{review}/history"),
    Place("discussion", "/papers/{slug}/discussion"),
    Place("thread", "/comments/{comment}", "reader"),
    Place("comment-edit", "/comments/{comment}/edit", "owner"),
    Place("comment-history", "/comments/{comment}/history"),
    Place("flag", "/comments/{comment}/flag", "reader"),
    Place("reader", "/readers/{handle}"),
    Place("collections", "/collections", "owner"),
    Place("collection", "/collections/{collection}", "owner"),
    Place("shared-collection", "/c/{token}"),
    Place("map", "/map?node=paper:{paper_id}", ready="canvas"),
    Place("playground", "/playground"),
    Place("polynomial", "/playground/polynomial", ready="#surface canvas"),
    Place("sequences", "/playground/sequences", ready="#scene svg"),
    Place("couplings", "/playground/couplings", ready="#modes svg"),
    Place("programs", "/playground/programs?library=induction&step=1", ready=".pg-player strong"),
    Place("moderation", "/moderation", "curator"),
    Place("audit", "/audit", "curator"),
    Place("account", "/account", "reader"),
    Place("accounts", "/admin/users", "admin"),
    Place("notices", "/notices", "owner"),
    Place("follow", "/papers/{slug}/follow", "owner"),
    Place("propose", "/propose", "reader"),
    Place("proposals", "/proposals", "curator"),
    Place("not-found", "/nothing-here", status=404),
    Place("not-allowed", "/admin/users", "reader", status=403),
]

VIEWS = [
    Place("paper-opinions", "/papers/{slug}#opinions", "owner"),
    Place("paper-claims", "/papers/{slug}#table-1", ready="#table-1 img"),
    Place("paper-map", "/papers/{slug}#map-heading", ready="canvas"),
    Place("paper-reviews", "/papers/{slug}#reviews", "owner"),
    Place("paper-discussion", "/papers/{slug}#discussion", "owner"),
    Place("polynomial-inside", "/playground/polynomial?x=0.6,-0.3#inside", ready="#panels canvas"),
    Place("polynomial-shape", "/playground/polynomial?x=0.6,-0.3#shape", ready="#surface canvas"),
    Place("sequences-journey", "/playground/sequences?step=5#journey", ready="#scene svg"),
    Place("couplings-values", "/playground/couplings#lost", ready="#modes svg"),
]
"""Other parts of the same pages, for pictures."""
