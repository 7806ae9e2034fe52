(** Tactics for the files of models with softmax attention. *)

From Coq Require Import Reals QArith Qreals List.
From Exactformer Require Import Semantics Rationals Identity SoftSoundness.
From Exactformer Require Export Laws Softmax Logistic SoftChecker.
Import ListNotations.
Open Scope R_scope.

Ltac number e :=
  lazymatch e with
  | IZR ?n / IZR (Zpos ?d) => constr:(Qmake n d)
  | IZR ?n => constr:(Qmake n 1)
  end.

(** Proves that a model agrees with what a goal says on a domain D, up to the error of the goal, with a
    guess of tanh: one evaluation of the checker at [Qed]. *)
Ltac certify_softly D guess :=
  lazymatch goal with
  | |- agree_within ?e (run_softmax ?T ?xs) ?es =>
      let targets := reify_all xs es in
      let eps := number e in
      change (agree_within (real eps) (run_softmax T xs) (map (eval xs) targets));
      refine (soft_sound T D guess eps targets _ xs _);
      [vm_cast_no_check (eq_refl SoftProved)|in_domain D]
  end.

(** Prints what the checker says of such a goal. *)
Ltac diagnose_softly D guess :=
  lazymatch goal with
  | |- agree_within ?e (run_softmax ?T ?xs) ?es =>
      let targets := reify_all xs es in
      let eps := number e in
      let v := eval vm_compute in (soft_check T D guess eps targets) in
      idtac "verdict:" v
  end.
