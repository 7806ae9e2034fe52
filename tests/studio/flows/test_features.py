"""What a paper's page offers, each with the test that walks it in a browser."""

from __future__ import annotations

from importlib import import_module

import pytest

FEATURES = {
    "metadata, open access, code, data, counters of citations, reviews and saves": (
        "library_flow.test_a_paper_shows_each_claim_with_status_and_the_command_to_rerun"
    ),
    "institutions of the authors": "paper_page_flow.test_an_institution_leads_to_its_people_and_papers",
    "votes with a small dislike, specific reactions, saves": (
        "opinions_flow.test_like_react_and_save_are_kept"
    ),
    "an invitation to log in": "opinions_flow.test_a_visitor_sees_counts_and_is_asked_to_log_in",
    "collections": "collections_flow.test_collect_from_a_papers_page_and_find_it_on_the_shelf",
    "sharing of collections": (
        "collections_flow.test_a_shared_link_works_for_everybody_until_it_is_taken_back"
    ),
    "structured reviews": "opinions_flow.test_write_a_review_edit_it_and_see_its_history",
    "discussion": "opinions_flow.test_comment_answer_edit_delete_and_mention",
    "useful reviews and comments": (
        "opinions_flow.test_a_comment_is_marked_as_useful_without_a_reload"
    ),
    "research map on the page, and its explorer": (
        "paper_page_flow.test_the_map_of_a_paper_leads_to_the_explorer"
    ),
    "the explorer": "exploring_the_map.test_the_whole_map_is_usable_with_the_keyboard_alone",
    "citations": "library_flow.test_a_citation_leads_to_the_cited_paper_and_back",
    "how to cite, and exports": "library_flow.test_everything_can_be_exported_in_two_forms",
    "bringing a paper": "hearing_flow.test_a_reader_brings_a_paper_and_a_curator_takes_it",
    "claims with their evidence": "claims_flow.test_a_claim_is_discussed_run_and_tried",
}


@pytest.mark.parametrize("feature", FEATURES)
def test_every_feature_is_walked(feature: str) -> None:
    module, _, test = FEATURES[feature].partition(".")
    assert callable(getattr(import_module(f"tests.studio.flows.test_{module}"), test))
