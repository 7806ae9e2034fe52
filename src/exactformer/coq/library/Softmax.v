(** What a transformer with ordinary softmax attention computes, over the real numbers.

    This file only defines; together with [Semantics] it is all that a reader of a softmax model's law
    must believe. The exponential is that of Coq's library. It stands apart from [Semantics] so that
    laws without softmax do not rest on the axioms behind the exponential. *)

From Coq Require Import Reals QArith Qreals List.
From Exactformer Require Import Semantics.
Import ListNotations.
Open Scope R_scope.

(** exp(s j) / (exp(s 0) + ... + exp(s (n - 1))). *)
Definition softmax (s : nat -> R) (n j : nat) : R := exp (s j) / sum (fun k => exp (s k)) n.

Definition attend_softly (n : nat) (h : head) (z : stream) (i : nat) : vector := fun d =>
  sum (fun j => softmax (score h z i) n j * times (value h) (z j) d) n.

(** z_i plus what every head adds; there is no feed-forward layer. *)
Fixpoint attention_softly (n : nat) (heads : list head) (z : stream) (i : nat) : vector := fun d =>
  match heads with
  | [] => z i d
  | h :: rest => attend_softly n h z i d + attention_softly n rest z i d
  end.

Record soft_transformer := SoftTransformer {
  soft_features : list (list Q);     (* F, one row per token *)
  soft_feature : nat;                (* the dimension that F x is added at *)
  soft_constant : matrix;            (* one row per token *)
  soft_blocks : list (list head);    (* the heads of every block *)
  soft_readouts : list (matrix * Q)  (* beta and b of every output *)
}.

(** The embedding and the readouts, which are those of [Semantics]. *)
Definition frame (T : soft_transformer) : transformer :=
  Transformer (soft_features T) (soft_feature T) (soft_constant T) [] (soft_readouts T).

Definition run_softmax (T : soft_transformer) (x : list R) : list R :=
  let n := length (soft_features T) in
  let z := fold_left (fun z heads i => attention_softly n heads z i) (soft_blocks T)
             (embed (frame T) x) in
  map (fun r => read n r z) (soft_readouts T).

(** As many numbers in both lists, and those at the same place differ by at most e. *)
Definition agree_within (e : R) : list R -> list R -> Prop := Forall2 (fun a b => Rabs (a - b) <= e).
