(** Tokens whose entries are polynomials in the token's own t, and matrices that act on them.

    A token is a formal sum: a list of (dimension, polynomial), in which a dimension that is missing
    is zero. Equal dimensions would add up, so that nothing depends on the order of the list; [tadd]
    keeps it short by keeping it sorted. *)

From Coq Require Import Reals QArith Qreals List Lra Lia FMapPositive.
From Exactformer Require Import Semantics Rationals OneVariable.
Import ListNotations.
Open Scope R_scope.

(** Dimensions and rows are counted in binary, from 1. *)
Definition place (d : nat) : positive := Pos.of_succ_nat d.

Lemma place_eqb i j : Pos.eqb (place i) (place j) = Nat.eqb i j.
Proof.
  destruct (Nat.eqb_spec i j) as [->|N]; [apply Pos.eqb_refl|].
  apply Pos.eqb_neq. intros E. now apply N, SuccNat2Pos.inj.
Qed.

Definition token := list (positive * upoly).

Fixpoint tval (z : token) (t : R) (k : positive) : R :=
  match z with
  | [] => 0
  | (j, p) :: z => (if Pos.eqb j k then peval p t else 0) + tval z t k
  end.

(** The token z of polynomials, at t, is the token v of reals. *)
Definition rep (z : token) (t : R) (v : vector) : Prop := forall d, v d = tval z t (place d).

Fixpoint tadd (j : positive) (p : upoly) (z : token) : token :=
  match z with
  | [] => [(j, p)]
  | (k, q) :: rest =>
      match Pos.compare j k with
      | Lt => (j, p) :: z
      | Eq => (k, padd q p) :: rest
      | Gt => (k, q) :: tadd j p rest
      end
  end.

Definition tsum (u z : token) : token := fold_right (fun e => tadd (fst e) (snd e)) z u.

(** The polynomial of one dimension. *)
Fixpoint tget (k : positive) (z : token) : upoly :=
  match z with
  | [] => []
  | (j, p) :: z => if Pos.eqb j k then padd p (tget k z) else tget k z
  end.

Lemma tval_tadd j p z t k :
  tval (tadd j p z) t k = (if Pos.eqb j k then peval p t else 0) + tval z t k.
Proof.
  induction z as [|[i q] z IH]; cbn [tadd tval]; trivial.
  destruct (Pos.compare_spec j i) as [->|L|L]; cbn [tval]; trivial.
  - destruct (Pos.eqb i k); rewrite ?peval_add; ring.
  - rewrite IH. ring.
Qed.

Lemma tval_tsum u z t k : tval (tsum u z) t k = tval u t k + tval z t k.
Proof.
  induction u as [|[j p] u IH]; cbn [tsum fold_right tval]; [ring|].
  rewrite tval_tadd. fold (tsum u z). rewrite IH. cbn [fst snd]. ring.
Qed.

Lemma tget_ok k z t : peval (tget k z) t = tval z t k.
Proof.
  induction z as [|[j p] z IH]; cbn [tget tval]; trivial.
  destruct (Pos.eqb j k); rewrite ?peval_add, IH; ring.
Qed.

(** ** Constants *)

Definition constants (row : sparse) : token :=
  fold_right (fun e => tadd (place (fst e)) [snd e]) [] row.

Lemma rep_constants row t : rep (constants row) t (dense row).
Proof.
  intros d. induction row as [|[j q] row IH]; cbn [constants fold_right dense]; [reflexivity|].
  rewrite tval_tadd. fold (constants row). rewrite <- IH, place_eqb. cbn [fst snd peval].
  destruct (Nat.eqb j d); ring.
Qed.

Lemma rep_tsum z z' t v v' : rep z t v -> rep z' t v' -> rep (tsum z z') t (fun d => v d + v' d).
Proof. intros H H' d. now rewrite tval_tsum, H, H'. Qed.

(** ** Matrices, by columns: a token meets only the columns of its own dimensions *)

Definition columns := PositiveMap.t (list (positive * Q)).

Definition column (j : positive) (m : columns) : list (positive * Q) :=
  match PositiveMap.find j m with Some l => l | None => [] end.

Fixpoint enter_row (i : positive) (row : sparse) (m : columns) : columns :=
  match row with
  | [] => m
  | (j, q) :: rest =>
      let m := enter_row i rest m in
      PositiveMap.add (place j) ((i, q) :: column (place j) m) m
  end.

Fixpoint by_column (i : positive) (M : matrix) : columns :=
  match M with
  | [] => PositiveMap.empty _
  | row :: M => enter_row i row (by_column (Pos.succ i) M)
  end.

Definition apply_columns (m : columns) (z : token) : token :=
  fold_right (fun e r =>
    fold_right (fun c => tadd (fst c) (pscale (snd c) (snd e))) r (column (fst e) m)) [] z.

Fixpoint cval (l : list (positive * Q)) (k : positive) : R :=
  match l with [] => 0 | (i, q) :: l => (if Pos.eqb i k then Q2R q else 0) + cval l k end.

Fixpoint act (m : columns) (z : token) (t : R) (k : positive) : R :=
  match z with [] => 0 | (j, p) :: z => cval (column j m) k * peval p t + act m z t k end.

Lemma apply_act m z t k : tval (apply_columns m z) t k = act m z t k.
Proof.
  induction z as [|[j p] z IH]; cbn [apply_columns fold_right act fst snd]; trivial.
  fold (apply_columns m z). rewrite <- IH. generalize (apply_columns m z). intros r.
  induction (column j m) as [|[i q] l IHl]; cbn [fold_right cval fst snd]; [ring|].
  rewrite tval_tadd, IHl, peval_scale. destruct (Pos.eqb i k); ring.
Qed.

Lemma act_enter m i j q z t k :
  act (PositiveMap.add j ((i, q) :: column j m) m) z t k
  = (if Pos.eqb i k then Q2R q * tval z t j else 0) + act m z t k.
Proof.
  induction z as [|[j' p] z IH]; cbn [act tval]; [destruct (Pos.eqb i k); ring|].
  rewrite IH. unfold column at 1. destruct (Pos.eqb_spec j' j) as [->|N].
  - rewrite PositiveMap.gss. cbn [cval]. destruct (Pos.eqb i k); ring.
  - rewrite PositiveMap.gso by trivial. fold (column j' m). destruct (Pos.eqb i k); ring.
Qed.

Lemma act_row i row m z t v k :
  rep z t v ->
  act (enter_row i row m) z t k = (if Pos.eqb i k then row_times row v else 0) + act m z t k.
Proof.
  intros H. induction row as [|[j q] row IH]; cbn [enter_row row_times].
  - destruct (Pos.eqb i k); ring.
  - cbv zeta. rewrite act_enter, IH, (H j). destruct (Pos.eqb i k); ring.
Qed.

Lemma act_matrix M z t v first d :
  rep z t v ->
  act (by_column (place first) M) z t (place d)
  = if Nat.leb first d then row_times (nth (d - first) M []) v else 0.
Proof.
  intros H. revert first; induction M as [|row M IH]; intros first; cbn [by_column].
  - assert (E : act (PositiveMap.empty _) z t (place d) = 0).
    { clear H. induction z as [|[j p] z IH]; cbn [act]; trivial.
      unfold column. rewrite PositiveMap.gempty. cbn [cval]. rewrite IH. ring. }
    rewrite E. destruct (Nat.leb first d); trivial. now destruct (d - first)%nat.
  - rewrite (act_row _ _ _ _ _ v) by trivial. rewrite place_eqb.
    change (Pos.succ (place first)) with (place (S first)). rewrite IH.
    destruct (Nat.eqb_spec first d) as [->|N].
    + rewrite Nat.leb_refl, Nat.sub_diag. cbn [nth].
      replace (Nat.leb (S d) d) with false by (symmetry; apply Nat.leb_gt; lia). ring.
    + destruct (Nat.leb_spec first d) as [L|L].
      * replace (Nat.leb (S first) d) with true by (symmetry; apply Nat.leb_le; lia).
        replace (d - first)%nat with (S (d - S first)) by lia. cbn [nth]. ring.
      * replace (Nat.leb (S first) d) with false by (symmetry; apply Nat.leb_gt; lia). ring.
Qed.

Definition indexed (M : matrix) : columns := by_column 1 M.

Lemma rep_times M z t v : rep z t v -> rep (apply_columns (indexed M) z) t (times M v).
Proof.
  intros H d. rewrite apply_act. unfold indexed. change 1%positive with (place 0).
  rewrite (act_matrix M z t v 0 d H). cbn [Nat.leb]. now rewrite Nat.sub_0_r.
Qed.

(** One row, as in the readout. *)
Definition row_of (row : sparse) (z : token) : upoly :=
  fold_right (fun e => padd (pscale (snd e) (tget (place (fst e)) z))) [] row.

Lemma row_ok row z t v : rep z t v -> row_times row v = peval (row_of row z) t.
Proof.
  intros H. induction row as [|[j q] row IH]; cbn [row_times row_of fold_right fst snd]; trivial.
  rewrite peval_add, peval_scale, tget_ok, IH, (H j). reflexivity.
Qed.

(** ** Scores *)

Lemma sum_ext f g n : (forall k, (k < n)%nat -> f k = g k) -> sum f n = sum g n.
Proof.
  revert f g; induction n as [|n IH]; intros f g H; simpl; trivial.
  rewrite (H 0%nat) by lia. f_equal. apply IH. intros k Hk. apply H. lia.
Qed.

Lemma sum_zero n : sum (fun _ => 0) n = 0.
Proof. induction n; simpl; lra. Qed.

Lemma sum_plus f g n : sum (fun k => f k + g k) n = sum f n + sum g n.
Proof.
  revert f g; induction n as [|n IH]; intros f g; simpl; [ring|].
  rewrite (IH (fun k => f (S k)) (fun k => g (S k))). ring.
Qed.

Lemma sum_single f n i :
  (i < n)%nat -> (forall j, (j < n)%nat -> j <> i -> f j = 0) -> sum f n = f i.
Proof.
  revert f i; induction n as [|n IH]; intros f i Hi H; [lia|].
  simpl. destruct i as [|i].
  - rewrite (sum_ext _ (fun _ => 0)), sum_zero; [ring|].
    intros k Hk. apply H; lia.
  - rewrite (H 0%nat) by lia. rewrite (IH (fun k => f (S k)) i); [ring|lia|].
    intros j Hj Hne. apply H; lia.
Qed.

(** The sum of q_r g_r over the rows r below a limit. *)
Fixpoint pairing (limit : positive) (q : token) (s : R) (g : positive -> R) : R :=
  match q with
  | [] => 0
  | (r, a) :: q => (if Pos.ltb r limit then peval a s * g r else 0) + pairing limit q s g
  end.

Lemma pairing_sum m q s g :
  sum (fun r => tval q s (place r) * g (place r)) m = pairing (place m) q s g.
Proof.
  induction q as [|[j a] q IH]; cbn [tval pairing].
  - rewrite (sum_ext _ (fun _ => 0)), sum_zero; trivial. intros; ring.
  - rewrite <- IH, (sum_ext _ (fun r => (if Pos.eqb j (place r) then peval a s else 0) * g (place r)
      + tval q s (place r) * g (place r))) by (intros; ring).
    rewrite sum_plus. f_equal.
    assert (E : exists i, j = place i).
    { exists (pred (Pos.to_nat j)). unfold place. rewrite Pos.of_nat_succ.
      rewrite Nat.succ_pred by (pose proof (Pos2Nat.is_pos j); lia). now rewrite Pos2Nat.id. }
    destruct E as [i ->].
    assert (L : Pos.ltb (place i) (place m) = Nat.ltb i m).
    { destruct (Nat.ltb_spec i m) as [L|L].
      - apply Pos.ltb_lt, Pos2Nat.inj_lt. unfold place. rewrite !SuccNat2Pos.id_succ. lia.
      - apply Pos.ltb_ge, Pos2Nat.inj_le. unfold place. rewrite !SuccNat2Pos.id_succ. lia. }
    rewrite L. destruct (Nat.ltb_spec i m) as [Hi|Hi].
    + rewrite (sum_single _ m i Hi); [now rewrite Pos.eqb_refl|].
      intros k Hk N. rewrite place_eqb. apply Nat.neq_sym, Nat.eqb_neq in N. rewrite N. ring.
    + rewrite (sum_ext _ (fun _ => 0)), sum_zero; trivial.
      intros k Hk. rewrite place_eqb. replace (Nat.eqb i k) with false; [ring|].
      symmetry. apply Nat.eqb_neq. lia.
Qed.

Fixpoint dot (limit : positive) (q k : token) : upoly :=
  match q with
  | [] => []
  | (r, a) :: q =>
      let rest := dot limit q k in
      if Pos.ltb r limit then
        match tget r k with [] => rest | b => padd (pmul a b) rest end
      else rest
  end.

Lemma dot_ok limit q k s : peval (dot limit q k) s = pairing limit q s (tval k s).
Proof.
  induction q as [|[r a] q IH]; cbn [dot pairing]; trivial. cbv zeta.
  destruct (Pos.ltb r limit); [|rewrite IH; ring].
  rewrite <- (tget_ok r k s). destruct (tget r k) as [|c b].
  - rewrite IH. cbn [peval]. ring.
  - now rewrite peval_add, peval_mul, IH.
Qed.

Definition limit (h : head) : positive := place (length (query h)).

Lemma score_pairing h z i j qi kj s t :
  rep qi s (fun r => times (query h) (z i) r + dense (bias h) r) -> rep kj t (times (key h) (z j)) ->
  score h z i j = pairing (limit h) qi s (tval kj t).
Proof.
  intros Hq Hk. unfold limit. rewrite <- pairing_sum. unfold score. apply sum_ext.
  intros r _. now rewrite (Hq r), (Hk r).
Qed.
