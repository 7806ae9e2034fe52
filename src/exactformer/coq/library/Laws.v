(** Notation and tactics for the files that are written for a model. *)

From Coq Require Import Reals QArith Qreals List Lra.
From Exactformer Require Export Semantics Domains Checker.
From Exactformer Require Import Rationals Identity Soundness.
Import ListNotations.
Open Scope R_scope.

(** An entry of a row: column |-> number. *)
Declare Scope model_scope.
Notation "j |-> q" := (@pair nat Q j%nat q%Q) (at level 60) : model_scope.

(** ** Reading a goal: expressions of reals as data *)

Ltac index x xs :=
  lazymatch xs with
  | x :: _ => constr:(O)
  | _ :: ?rest => let k := index x rest in constr:(S k)
  end.

Ltac reify xs e :=
  lazymatch e with
  | ?a + ?b => let a := reify xs a in let b := reify xs b in constr:(Add a b)
  | ?a - ?b => let a := reify xs a in let b := reify xs b in constr:(Sub a b)
  | ?a * ?b => let a := reify xs a in let b := reify xs b in constr:(Mul a b)
  | IZR ?n / IZR (Zpos ?d) => constr:(Const (Qmake n d))
  | - ?a => let a := reify xs a in constr:(Opp a)
  | ?a ^ ?n => let a := reify xs a in constr:(Pow a n)
  | IZR ?n => constr:(Const (Qmake n 1))
  | _ => let k := index e xs in constr:(Var k)
  end.

Ltac reify_all xs es :=
  lazymatch es with
  | [] => constr:(@nil expr)
  | ?e :: ?es => let e := reify xs e in let es := reify_all xs es in constr:(e :: es)
  end.

(** ** Proofs *)

(** Proves [inside D [x1; ...]] from the inequalities as one would write them. *)
Ltac in_domain D :=
  unfold D, inside; split; [reflexivity|];
  cbn [minus squares within]; rewrite <- ?real_ok; cbn [real Qnum Qden];
  repeat split; try (apply Rabs_le); lra.

(** Proves that a model is what a goal says on a domain D: one evaluation of the checker by the
    kernel's virtual machine, at [Qed]. *)
Ltac certify D :=
  lazymatch goal with
  | |- run ?T ?xs = ?es =>
      let targets := reify_all xs es in
      change (run T xs = map (eval xs) targets);
      refine (sound T D targets _ xs _); [vm_cast_no_check (eq_refl Proved)|in_domain D]
  end.

(** Prints what the checker says of such a goal. *)
Ltac diagnose D :=
  lazymatch goal with
  | |- run ?T ?xs = ?es =>
      let targets := reify_all xs es in
      let v := eval vm_compute in (check T D targets) in
      idtac "verdict:" v
  end.
