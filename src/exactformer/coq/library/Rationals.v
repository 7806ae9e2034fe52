(** Rational arithmetic that stays short, and what it means among the reals. *)

From Coq Require Import Reals QArith Qreals Qabs Bool Lra.
Open Scope Q_scope.

(** Integers need no reduction: that makes them several times as fast. *)
Definition qadd (a b : Q) : Q :=
  match Qden a, Qden b with
  | xH, xH => (Qnum a + Qnum b) # 1
  | _, _ => Qred (a + b)
  end.

Definition qmul (a b : Q) : Q :=
  match Qden a, Qden b with
  | xH, xH => (Qnum a * Qnum b) # 1
  | _, _ => Qred (a * b)
  end.

Definition qsub (a b : Q) : Q := qadd a (Qopp b).
Definition qlt (a b : Q) : bool := negb (Qle_bool b a).
Definition qmin (a b : Q) : Q := if Qle_bool a b then a else b.
Definition qmax (a b : Q) : Q := if Qle_bool a b then b else a.
Definition zero (a : Q) : bool := Z.eqb (Qnum a) 0.

(** [||] and [&&] that leave their right side alone where it does not matter. *)
Notation "a 'orelse' b" := (if a then true else b) (at level 60, b at level 200).
Notation "a 'andalso' b" := (if a then b else false) (at level 60, b at level 200).

Open Scope R_scope.

Lemma Q2R_qred q : Q2R (Qred q) = Q2R q.
Proof. apply Qeq_eqR, Qred_correct. Qed.

Lemma Q2R_integer z : Q2R (z # 1) = IZR z.
Proof. unfold Q2R; simpl. lra. Qed.

Lemma integer_of a : Qden a = 1%positive -> Q2R a = IZR (Qnum a).
Proof. destruct a as [n d]; simpl; intros ->. apply Q2R_integer. Qed.

Lemma Q2R_qadd a b : Q2R (qadd a b) = Q2R a + Q2R b.
Proof.
  unfold qadd. destruct (Qden a) eqn:A; try (now rewrite Q2R_qred, Q2R_plus).
  destruct (Qden b) eqn:B; try (now rewrite Q2R_qred, Q2R_plus).
  now rewrite Q2R_integer, plus_IZR, (integer_of a A), (integer_of b B).
Qed.

Lemma Q2R_qmul a b : Q2R (qmul a b) = Q2R a * Q2R b.
Proof.
  unfold qmul. destruct (Qden a) eqn:A; try (now rewrite Q2R_qred, Q2R_mult).
  destruct (Qden b) eqn:B; try (now rewrite Q2R_qred, Q2R_mult).
  now rewrite Q2R_integer, mult_IZR, (integer_of a A), (integer_of b B).
Qed.

Lemma Q2R_0 : Q2R 0 = 0.
Proof. unfold Q2R; simpl; lra. Qed.

Lemma Q2R_1 : Q2R 1 = 1.
Proof. unfold Q2R; simpl; lra. Qed.

Lemma Q2R_neg1 : Q2R (-1) = -1.
Proof. unfold Q2R; simpl; lra. Qed.

Lemma Q2R_half : Q2R (1 # 2) = / 2.
Proof. unfold Q2R; simpl; lra. Qed.

Lemma Q2R_qsub a b : Q2R (qsub a b) = Q2R a - Q2R b.
Proof. unfold qsub. rewrite Q2R_qadd, Q2R_opp. lra. Qed.

Lemma Q2R_abs a : Q2R (Qabs a) = Rabs (Q2R a).
Proof.
  apply Qabs_case; intros H; apply Qle_Rle in H; rewrite Q2R_0 in H.
  - now rewrite Rabs_pos_eq.
  - rewrite Q2R_opp, Rabs_left1; trivial.
Qed.

#[export] Hint Rewrite Q2R_qadd Q2R_qsub Q2R_qmul Q2R_0 Q2R_1 Q2R_abs Q2R_neg1 Q2R_half Q2R_opp
  : q2r.

Lemma qle_ok a b : Qle_bool a b = true -> Q2R a <= Q2R b.
Proof. intros H. now apply Qle_Rle, Qle_bool_iff. Qed.

Lemma qlt_iff a b : qlt a b = true <-> Q2R a < Q2R b.
Proof.
  unfold qlt. rewrite negb_true_iff. split; intros H.
  - apply Rnot_le_lt. intros C. apply Rle_Qle in C. apply Qle_bool_iff in C. congruence.
  - destruct (Qle_bool b a) eqn:E; trivial. apply qle_ok in E. lra.
Qed.

Lemma qmin_ok a b c : c <= Q2R a -> c <= Q2R b -> c <= Q2R (qmin a b).
Proof. unfold qmin. now destruct (Qle_bool a b). Qed.

Lemma zero_ok a : zero a = true -> Q2R a = 0.
Proof.
  unfold zero. intros H. apply Z.eqb_eq in H. unfold Q2R. rewrite H. lra.
Qed.

(** A rational as one would write it: 3 and 1 / 2. *)
Definition real (q : Q) : R :=
  match Qden q with
  | xH => IZR (Qnum q)
  | d => IZR (Qnum q) / IZR (Zpos d)
  end.

Lemma real_ok q : real q = Q2R q.
Proof. unfold real, Q2R. destruct q as [n [d|d|]]; simpl; trivial. field. Qed.
