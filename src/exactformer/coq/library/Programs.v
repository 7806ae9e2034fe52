(** Tactics for the files that are written for models of programs. *)

From Coq Require Import QArith String Bool List.
From Exactformer Require Export HardAttention Rasp Inputs Schedules.
Import ListNotations.

(** Proves that a model computes a program: one evaluation by the kernel's virtual machine, at
    [Qed]. The order of the steps is a hint; no order makes a wrong theorem pass. *)
Ltac certify_program steps :=
  lazymatch goal with
  | |- forall input, _ -> (_ <= _ <= ?longest)%nat ->
         exists output, eval ?P _ = _ /\ answer ?T ?vocabulary ?how _ = _ =>
      refine (certify_ok steps T vocabulary longest how P _); vm_cast_no_check (eq_refl Proved)
  end.

(** Prints what the checker says of such a goal. *)
Ltac diagnose_program steps :=
  lazymatch goal with
  | |- forall input, _ -> (_ <= _ <= ?longest)%nat ->
         exists output, eval ?P _ = _ /\ answer ?T ?vocabulary ?how _ = _ =>
      let v := eval vm_compute in (certify steps T vocabulary longest how P) in idtac "verdict:" v
  end.
