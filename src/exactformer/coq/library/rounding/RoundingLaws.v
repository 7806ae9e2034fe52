(** Tactics for theorems about rounding. *)

From Coq Require Import Reals QArith Qreals List.
From Exactformer Require Import Semantics Rationals Identity SoftLaws.
From Exactformer.rounding Require Import Rounding.
From Exactformer Require Export Laws.
From Exactformer.rounding Require Export Floats.
Import ListNotations.
Open Scope R_scope.

(** Proves what a goal says of the result of a closed form on a domain D. *)
Ltac certify_rounding D :=
  lazymatch goal with
  | H : computes ?f ?F ?xs ?v ?m |- ?m < too_large ?f /\ Rabs (?v - ?e) <= ?eps =>
      let t := reify xs e in
      let q := number eps in
      change (m < too_large f /\ Rabs (v - eval xs t) <= real q);
      refine (rounding_sound f F D q t _ xs _ v m H); [vm_cast_no_check (eq_refl true)|in_domain D]
  end.

(** Prints what the checker says of such a goal. *)
Ltac diagnose_rounding D :=
  lazymatch goal with
  | H : computes ?f ?F ?xs ?v ?m |- ?m < too_large ?f /\ Rabs (?v - ?e) <= ?eps =>
      let t := reify xs e in
      let q := number eps in
      let b := eval vm_compute in (rounding_check f F D q t) in
      lazymatch b with
      | true => idtac "verdict: RoundingProved"
      | false => idtac "verdict: RoundingRefused"
      end
  end.
