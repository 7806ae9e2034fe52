(** A program and a transformer compared on every input, one by one. *)

From Coq Require Import QArith String Bool List Lia.
From Exactformer Require Import HardAttention Rasp.
Import ListNotations.

(** The model computes the program on every input of 1 to [longest] tokens of a vocabulary, and the
    program has a value there. Files of models write this out. *)
Definition computes (T : transformer) (vocabulary : list value) (longest : nat) (how : reading)
    (P : rasp) : Prop :=
  forall input : list value,
    (forall x, In x input -> In x vocabulary) -> (1 <= length input <= longest)%nat ->
    exists output, eval P input = Some output /\ answer T vocabulary how input = Some output.

Inductive verdict :=
  | Proved
  | WrongOn (input : list value)
  | NotFollowed.     (* too many inputs to compare, and the states do not suffice for a proof *)

(** ** Equality of values *)

Lemma same_ok a b : same a b = true <-> a = b.
Proof.
  split; [|intros <-].
  - revert b; induction a as [|[n d]|s| |a IHa c IHc]; intros [|[m e]|t| |b b']; simpl; try easy.
    + destruct (Z.eqb n m) eqn:N; [|easy]. intros D. apply Z.eqb_eq in N. apply Pos.eqb_eq in D.
      now subst.
    + intros E. apply String.eqb_eq in E. now subst.
    + destruct (same a b) eqn:E; [|easy]. intros F. now rewrite (IHa b E), (IHc b' F).
  - induction a as [|[n d]|s| |a IHa c IHc]; simpl; trivial.
    + now rewrite Z.eqb_refl, Pos.eqb_refl.
    + apply String.eqb_refl.
    + now rewrite IHa, IHc.
Qed.

Fixpoint same_values (l m : list value) : bool :=
  match l, m with
  | [], [] => true
  | a :: l, b :: m => if same a b then same_values l m else false
  | _, _ => false
  end.

Lemma same_values_ok l m : same_values l m = true -> l = m.
Proof.
  revert m; induction l as [|a l IH]; intros [|b m]; simpl; try easy.
  destruct (same a b) eqn:E; [|easy]. intros F. apply same_ok in E. now rewrite E, (IH m F).
Qed.

(** ** All inputs *)

(** Those of n tokens. *)
Fixpoint words {X} (alphabet : list X) (n : nat) : list (list X) :=
  match n with
  | O => [[]]
  | S n => flat_map (fun rest => map (fun x => x :: rest) alphabet) (words alphabet n)
  end.

Lemma words_all {X} (alphabet input : list X) :
  (forall x, In x input -> In x alphabet) -> In input (words alphabet (length input)).
Proof.
  induction input as [|x input IH]; intros H; [now left|].
  cbn [length words]. apply in_flat_map. exists input. split.
  - apply IH. intros y Y. apply H. now right.
  - apply in_map_iff. exists x. split; trivial. apply H. now left.
Qed.

(** Whether the answer to an input is that of the program. *)
Definition right_on T vocabulary how P (input : list value) : bool :=
  match eval P input, answer T vocabulary how input with
  | Some a, Some b => same_values a b
  | _, _ => false
  end.

(** The first input that is answered wrongly. *)
Definition compare T vocabulary longest how P : verdict :=
  let everything := flat_map (words vocabulary) (seq 1 longest) in
  match find (fun input => negb (right_on T vocabulary how P input)) everything with
  | Some input => WrongOn input
  | None => Proved
  end.

Theorem compare_ok T vocabulary longest how P :
  compare T vocabulary longest how P = Proved -> computes T vocabulary longest how P.
Proof.
  unfold compare. destruct (find _ _) eqn:F; [easy|]. intros _ input H L.
  assert (R : right_on T vocabulary how P input = true).
  { apply negb_false_iff. apply (find_none _ _ F). apply in_flat_map. exists (length input).
    split; [apply in_seq; lia|now apply words_all]. }
  unfold right_on in R. destruct (eval P input) as [a|]; [|easy].
  destruct (answer T vocabulary how input) as [b|]; [|easy].
  exists a. split; trivial. now rewrite (same_values_ok _ _ R).
Qed.
