"""The tables the studio begins with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create them."""
    op.create_table(
        "institutions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=300), nullable=False),
        sa.Column("normalised_name", sa.String(length=300), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_institutions")),
        sa.UniqueConstraint("normalised_name", name=op.f("uq_institutions_normalised_name")),
    )
    op.create_table(
        "papers",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("slug", sa.String(length=120), nullable=False),
        sa.Column("title", sa.String(length=500), nullable=False),
        sa.Column("normalised_title", sa.String(length=500), nullable=False),
        sa.Column("abstract", sa.Text(), nullable=False),
        sa.Column("year", sa.Integer(), nullable=True),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("source", sa.String(length=200), nullable=False),
        sa.Column("open_access", sa.Boolean(), nullable=True),
        sa.Column("doi", sa.String(length=200), nullable=True),
        sa.Column("arxiv_id", sa.String(length=40), nullable=True),
        sa.Column("openalex_id", sa.String(length=40), nullable=True),
        sa.Column("url", sa.String(length=500), nullable=False),
        sa.Column("code_url", sa.String(length=500), nullable=False),
        sa.Column("code_note", sa.String(length=500), nullable=False),
        sa.Column("data_url", sa.String(length=500), nullable=False),
        sa.Column("data_note", sa.String(length=500), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_papers")),
        sa.UniqueConstraint("arxiv_id", name=op.f("uq_papers_arxiv_id")),
        sa.UniqueConstraint("doi", name=op.f("uq_papers_doi")),
        sa.UniqueConstraint("openalex_id", name=op.f("uq_papers_openalex_id")),
        sa.UniqueConstraint("slug", name=op.f("uq_papers_slug")),
    )
    op.create_index(
        op.f("ix_papers_normalised_title"), "papers", ["normalised_title"], unique=False
    )
    op.create_index(op.f("ix_papers_year"), "papers", ["year"], unique=False)
    op.create_table(
        "people",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("normalised_name", sa.String(length=200), nullable=False),
        sa.Column("orcid", sa.String(length=40), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_people")),
        sa.UniqueConstraint("orcid", name=op.f("uq_people_orcid")),
    )
    op.create_index(op.f("ix_people_normalised_name"), "people", ["normalised_name"], unique=False)
    op.create_table(
        "topics",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("slug", sa.String(length=120), nullable=False),
        sa.Column("name", sa.String(length=120), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_topics")),
        sa.UniqueConstraint("slug", name=op.f("uq_topics_slug")),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("handle", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=120), nullable=False),
        sa.Column("password_hash", sa.String(length=255), nullable=False),
        sa.Column("role", sa.String(length=10), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("role IN ('reader', 'curator', 'admin')", name=op.f("ck_users_role")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("handle", name=op.f("uq_users_handle")),
    )
    op.create_table(
        "audit_log",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor_id", sa.Integer(), nullable=True),
        sa.Column("action", sa.String(length=40), nullable=False),
        sa.Column("subject_kind", sa.String(length=20), nullable=False),
        sa.Column("subject_id", sa.Integer(), nullable=True),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["actor_id"],
            ["users.id"],
            name=op.f("fk_audit_log_actor_id_users"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_log")),
    )
    op.create_index(op.f("ix_audit_log_at"), "audit_log", ["at"], unique=False)
    op.create_index(
        "ix_audit_log_subject_kind_subject_id",
        "audit_log",
        ["subject_kind", "subject_id"],
        unique=False,
    )
    op.create_table(
        "authorships",
        sa.Column("paper_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("person_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["paper_id"],
            ["papers.id"],
            name=op.f("fk_authorships_paper_id_papers"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["person_id"],
            ["people.id"],
            name=op.f("fk_authorships_person_id_people"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("paper_id", "position", name=op.f("pk_authorships")),
    )
    op.create_index(op.f("ix_authorships_person_id"), "authorships", ["person_id"], unique=False)
    op.create_table(
        "citations",
        sa.Column("citing_id", sa.Integer(), nullable=False),
        sa.Column("cited_id", sa.Integer(), nullable=False),
        sa.CheckConstraint("citing_id <> cited_id", name=op.f("ck_citations_not_itself")),
        sa.ForeignKeyConstraint(
            ["cited_id"],
            ["papers.id"],
            name=op.f("fk_citations_cited_id_papers"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["citing_id"],
            ["papers.id"],
            name=op.f("fk_citations_citing_id_papers"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("citing_id", "cited_id", name=op.f("pk_citations")),
    )
    op.create_index(op.f("ix_citations_cited_id"), "citations", ["cited_id"], unique=False)
    op.create_table(
        "claims",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("paper_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("anchor", sa.String(length=60), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("title", sa.String(length=300), nullable=False),
        sa.Column("statement", sa.Text(), nullable=False),
        sa.Column("experiment", sa.String(length=60), nullable=True),
        sa.Column("checked_by", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["paper_id"], ["papers.id"], name=op.f("fk_claims_paper_id_papers"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_claims")),
        sa.UniqueConstraint("paper_id", "anchor", name=op.f("uq_claims_paper_id_anchor")),
    )
    op.create_index(op.f("ix_claims_experiment"), "claims", ["experiment"], unique=False)
    op.create_table(
        "collections",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("owner_id", sa.Integer(), nullable=False),
        sa.Column("title", sa.String(length=200), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("visibility", sa.String(length=10), nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "visibility IN ('private', 'link')", name=op.f("ck_collections_visibility")
        ),
        sa.ForeignKeyConstraint(
            ["owner_id"],
            ["users.id"],
            name=op.f("fk_collections_owner_id_users"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_collections")),
        sa.UniqueConstraint("token", name=op.f("uq_collections_token")),
    )
    op.create_index(op.f("ix_collections_owner_id"), "collections", ["owner_id"], unique=False)
    op.create_table(
        "comments",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("paper_id", sa.Integer(), nullable=False),
        sa.Column("author_id", sa.Integer(), nullable=False),
        sa.Column("parent_id", sa.Integer(), nullable=True),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "state IN ('visible', 'deleted', 'hidden')", name=op.f("ck_comments_state")
        ),
        sa.ForeignKeyConstraint(
            ["author_id"],
            ["users.id"],
            name=op.f("fk_comments_author_id_users"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["paper_id"],
            ["papers.id"],
            name=op.f("fk_comments_paper_id_papers"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["parent_id"],
            ["comments.id"],
            name=op.f("fk_comments_parent_id_comments"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_comments")),
    )
    op.create_index(op.f("ix_comments_author_id"), "comments", ["author_id"], unique=False)
    op.create_index(
        "ix_comments_paper_id_created_at", "comments", ["paper_id", "created_at"], unique=False
    )
    op.create_index(op.f("ix_comments_parent_id"), "comments", ["parent_id"], unique=False)
    op.create_table(
        "flags",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("subject_kind", sa.String(length=20), nullable=False),
        sa.Column("subject_id", sa.Integer(), nullable=False),
        sa.Column("reporter_id", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("decided_by_id", sa.Integer(), nullable=True),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("state IN ('open', 'upheld', 'dismissed')", name=op.f("ck_flags_state")),
        sa.ForeignKeyConstraint(
            ["decided_by_id"],
            ["users.id"],
            name=op.f("fk_flags_decided_by_id_users"),
            ondelete="SET NULL",
        ),
        sa.ForeignKeyConstraint(
            ["reporter_id"],
            ["users.id"],
            name=op.f("fk_flags_reporter_id_users"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_flags")),
    )
    op.create_index(op.f("ix_flags_state"), "flags", ["state"], unique=False)
    op.create_index(
        "ix_flags_subject_kind_subject_id", "flags", ["subject_kind", "subject_id"], unique=False
    )
    op.create_table(
        "paper_topics",
        sa.Column("paper_id", sa.Integer(), nullable=False),
        sa.Column("topic_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["paper_id"],
            ["papers.id"],
            name=op.f("fk_paper_topics_paper_id_papers"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["topic_id"],
            ["topics.id"],
            name=op.f("fk_paper_topics_topic_id_topics"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("paper_id", "topic_id", name=op.f("pk_paper_topics")),
    )
    op.create_index(op.f("ix_paper_topics_topic_id"), "paper_topics", ["topic_id"], unique=False)
    op.create_table(
        "pending_imports",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("owner_id", sa.Integer(), nullable=False),
        sa.Column("format", sa.String(length=20), nullable=False),
        sa.Column("records", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["owner_id"],
            ["users.id"],
            name=op.f("fk_pending_imports_owner_id_users"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pending_imports")),
    )
    op.create_index(
        op.f("ix_pending_imports_owner_id"), "pending_imports", ["owner_id"], unique=False
    )
    op.create_table(
        "reactions",
        sa.Column("paper_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=30), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["paper_id"],
            ["papers.id"],
            name=op.f("fk_reactions_paper_id_papers"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_reactions_user_id_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("paper_id", "user_id", "kind", name=op.f("pk_reactions")),
    )
    op.create_index(op.f("ix_reactions_user_id"), "reactions", ["user_id"], unique=False)
    op.create_table(
        "reviews",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("paper_id", sa.Integer(), nullable=False),
        sa.Column("author_id", sa.Integer(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("strengths", sa.Text(), nullable=False),
        sa.Column("concerns", sa.Text(), nullable=False),
        sa.Column("questions", sa.Text(), nullable=False),
        sa.Column("conflict", sa.Text(), nullable=False),
        sa.Column("confidence", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "state IN ('visible', 'deleted', 'hidden')", name=op.f("ck_reviews_state")
        ),
        sa.CheckConstraint("confidence BETWEEN 1 AND 5", name=op.f("ck_reviews_confidence")),
        sa.ForeignKeyConstraint(
            ["author_id"], ["users.id"], name=op.f("fk_reviews_author_id_users"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["paper_id"], ["papers.id"], name=op.f("fk_reviews_paper_id_papers"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reviews")),
        sa.UniqueConstraint("paper_id", "author_id", name=op.f("uq_reviews_paper_id_author_id")),
    )
    op.create_index(op.f("ix_reviews_author_id"), "reviews", ["author_id"], unique=False)
    op.create_table(
        "saves",
        sa.Column("paper_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["paper_id"], ["papers.id"], name=op.f("fk_saves_paper_id_papers"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_saves_user_id_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("paper_id", "user_id", name=op.f("pk_saves")),
    )
    op.create_index(op.f("ix_saves_user_id"), "saves", ["user_id"], unique=False)
    op.create_table(
        "sessions",
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=True),
        sa.Column("csrf_token", sa.String(length=64), nullable=False),
        sa.Column("agent", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_sessions_user_id_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_expires_at"), "sessions", ["expires_at"], unique=False)
    op.create_index(op.f("ix_sessions_user_id"), "sessions", ["user_id"], unique=False)
    op.create_table(
        "votes",
        sa.Column("paper_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("value", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("value IN (-1, 1)", name=op.f("ck_votes_value")),
        sa.ForeignKeyConstraint(
            ["paper_id"], ["papers.id"], name=op.f("fk_votes_paper_id_papers"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_votes_user_id_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("paper_id", "user_id", name=op.f("pk_votes")),
    )
    op.create_index(op.f("ix_votes_user_id"), "votes", ["user_id"], unique=False)
    op.create_table(
        "affiliations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("paper_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("institution_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["institution_id"],
            ["institutions.id"],
            name=op.f("fk_affiliations_institution_id_institutions"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["paper_id", "position"],
            ["authorships.paper_id", "authorships.position"],
            name=op.f("fk_affiliations_paper_id_position_authorships"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_affiliations")),
        sa.UniqueConstraint(
            "paper_id",
            "position",
            "institution_id",
            name=op.f("uq_affiliations_paper_id_position_institution_id"),
        ),
    )
    op.create_index(
        op.f("ix_affiliations_institution_id"), "affiliations", ["institution_id"], unique=False
    )
    op.create_table(
        "collection_items",
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("paper_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"],
            ["collections.id"],
            name=op.f("fk_collection_items_collection_id_collections"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["paper_id"],
            ["papers.id"],
            name=op.f("fk_collection_items_paper_id_papers"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("collection_id", "paper_id", name=op.f("pk_collection_items")),
    )
    op.create_index(
        op.f("ix_collection_items_paper_id"), "collection_items", ["paper_id"], unique=False
    )
    op.create_table(
        "comment_mentions",
        sa.Column("comment_id", sa.Integer(), nullable=False),
        sa.Column("claim_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["claim_id"],
            ["claims.id"],
            name=op.f("fk_comment_mentions_claim_id_claims"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["comment_id"],
            ["comments.id"],
            name=op.f("fk_comment_mentions_comment_id_comments"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("comment_id", "claim_id", name=op.f("pk_comment_mentions")),
    )
    op.create_index(
        op.f("ix_comment_mentions_claim_id"), "comment_mentions", ["claim_id"], unique=False
    )
    op.create_table(
        "comment_versions",
        sa.Column("comment_id", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["comment_id"],
            ["comments.id"],
            name=op.f("fk_comment_versions_comment_id_comments"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("comment_id", "revision", name=op.f("pk_comment_versions")),
    )
    op.create_table(
        "review_versions",
        sa.Column("review_id", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("strengths", sa.Text(), nullable=False),
        sa.Column("concerns", sa.Text(), nullable=False),
        sa.Column("questions", sa.Text(), nullable=False),
        sa.Column("conflict", sa.Text(), nullable=False),
        sa.Column("confidence", sa.Integer(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["review_id"],
            ["reviews.id"],
            name=op.f("fk_review_versions_review_id_reviews"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("review_id", "revision", name=op.f("pk_review_versions")),
    )


def downgrade() -> None:
    """Drop them, and all that was in them."""
    op.drop_table("review_versions")
    op.drop_table("comment_versions")
    op.drop_index(op.f("ix_comment_mentions_claim_id"), table_name="comment_mentions")
    op.drop_table("comment_mentions")
    op.drop_index(op.f("ix_collection_items_paper_id"), table_name="collection_items")
    op.drop_table("collection_items")
    op.drop_index(op.f("ix_affiliations_institution_id"), table_name="affiliations")
    op.drop_table("affiliations")
    op.drop_index(op.f("ix_votes_user_id"), table_name="votes")
    op.drop_table("votes")
    op.drop_index(op.f("ix_sessions_user_id"), table_name="sessions")
    op.drop_index(op.f("ix_sessions_expires_at"), table_name="sessions")
    op.drop_table("sessions")
    op.drop_index(op.f("ix_saves_user_id"), table_name="saves")
    op.drop_table("saves")
    op.drop_index(op.f("ix_reviews_author_id"), table_name="reviews")
    op.drop_table("reviews")
    op.drop_index(op.f("ix_reactions_user_id"), table_name="reactions")
    op.drop_table("reactions")
    op.drop_index(op.f("ix_pending_imports_owner_id"), table_name="pending_imports")
    op.drop_table("pending_imports")
    op.drop_index(op.f("ix_paper_topics_topic_id"), table_name="paper_topics")
    op.drop_table("paper_topics")
    op.drop_index("ix_flags_subject_kind_subject_id", table_name="flags")
    op.drop_index(op.f("ix_flags_state"), table_name="flags")
    op.drop_table("flags")
    op.drop_index(op.f("ix_comments_parent_id"), table_name="comments")
    op.drop_index("ix_comments_paper_id_created_at", table_name="comments")
    op.drop_index(op.f("ix_comments_author_id"), table_name="comments")
    op.drop_table("comments")
    op.drop_index(op.f("ix_collections_owner_id"), table_name="collections")
    op.drop_table("collections")
    op.drop_index(op.f("ix_claims_experiment"), table_name="claims")
    op.drop_table("claims")
    op.drop_index(op.f("ix_citations_cited_id"), table_name="citations")
    op.drop_table("citations")
    op.drop_index(op.f("ix_authorships_person_id"), table_name="authorships")
    op.drop_table("authorships")
    op.drop_index("ix_audit_log_subject_kind_subject_id", table_name="audit_log")
    op.drop_index(op.f("ix_audit_log_at"), table_name="audit_log")
    op.drop_table("audit_log")
    op.drop_table("users")
    op.drop_table("topics")
    op.drop_index(op.f("ix_people_normalised_name"), table_name="people")
    op.drop_table("people")
    op.drop_index(op.f("ix_papers_year"), table_name="papers")
    op.drop_index(op.f("ix_papers_normalised_title"), table_name="papers")
    op.drop_table("papers")
    op.drop_table("institutions")
