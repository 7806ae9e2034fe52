(** Clenshaw's recurrence: sums of Chebyshev polynomials, exactly and in floating-point arithmetic. *)

From Coq Require Import Reals QArith Qreals Qabs List Lra Lia.
From Exactformer Require Import Rationals OneVariable Logistic.
From Exactformer.rounding Require Import Floats Summation.
Import ListNotations.
Open Scope Q_scope.

(** ** The checker *)

(** b_1 and b_2 as polynomials, and c_1 T_1 + c_2 T_2 + ... in powers. *)
Fixpoint clenshaw_powers (c : list Q) : upoly * upoly :=
  match c with
  | [] => ([], [])
  | q :: c =>
      let '(b, b') := clenshaw_powers c in
      (padd [q] (padd (0 :: pscale 2 b) (pscale (-1) b')), b)
  end.

Definition in_powers (c : list Q) : upoly :=
  let '(b, b') := clenshaw_powers c in padd (0 :: b) (pscale (-1) b').

(** T_k(r) and U_(k-1)(r) for r >= 1, rounded up. *)
Fixpoint beyond (r : Q) (k : nat) : Q * Q :=
  match k with
  | O => (1, 0)
  | S k =>
      let '(T, U) := beyond r k in
      (up (qadd (qmul r T) (qmul (qsub (qmul r r) 1) U)), up (qadd (qmul r U) T))
  end.

(** A bound of |T_k| on |t| <= r, the largest for all k up to this one. *)
Definition swing (r : Q) (k : nat) : Q := if Qle_bool r 1 then 1 else fst (beyond r k).

(** The recurrence is linear: the computed b_s are the exact ones of coefficients that are a little off.
    [mass] bounds the sum of the sizes of these from c_s on, [moment] the sum of all masses so far, [wrong]
    the sum of how far they are off; [now] and [before] bound |b_s| and |b_(s+1)|, [most] all numbers on
    the way. *)
Record course := Course { mass : Q; moment : Q; wrong : Q; now : Q; before : Q; most : Q }.

(** |c_s| + |2 t b_(s+1)| + |b_(s+2)|, as they are in floating-point arithmetic. *)
Definition summands (f : format) (low : Z) (r E c : Q) (p : course) : Q :=
  up (qadd (qadd (Qabs c) (weight_error f low c))
        (qadd (before p) (qmul (qmul 2 (qadd r E)) (now p)))).

Definition advance (f : format) (low : Z) (r E G c : Q) (p : course) : course :=
  let w := weight_error f low c in
  let size := summands f low r E c p in
  let noise := sum_error (unit_of f low) 2 3 size in
  let off := up (qadd (qadd w noise) (qmul (qmul 2 E) (now p))) in
  let m := up (qadd (mass p) (qadd (Qabs c) off)) in
  let M := up (qadd (moment p) m) in
  Course m M (up (qadd (wrong p) off)) (up (qmul G M)) (now p) (qmax (most p) (qadd size noise)).

Definition course_of (f : format) (low : Z) (r E G : Q) (c : list Q) : course :=
  fold_right (advance f low r E G) (Course 0 0 0 0 0 0) c.

(** Size, error and the largest number on the way of c_1 T_1(t) + ..., |t| <= r up to E. *)
Definition clenshaw_bound (f : format) (low : Z) (r E : Q) (c : list Q) : Q * Q * Q :=
  let G := swing r (length c) in
  let p := course_of f low r E G c in
  let size := up (qadd (qmul (qadd r E) (now p)) (before p)) in
  let noise := sum_error (unit_of f low) 2 2 size in
  (up (qmul G (absolute c)), up (qadd (qadd (qmul G (wrong p)) (qmul E (now p))) noise),
   qmax (qmax (most p) (qadd size noise)) (qmul 2 (qadd r E))).

Open Scope R_scope.

Lemma Q2R_2 : Q2R 2 = 2.
Proof. exact (Q2R_integer 2). Qed.

(** ** The exact recurrence *)

Fixpoint recurrence (t : R) (d : list R) : R * R :=
  match d with [] => (0, 0) | a :: d => let (b, b') := recurrence t d in (a + 2 * t * b - b', b) end.

Definition chebyshev_sum (t : R) (d : list R) : R := t * fst (recurrence t d) - snd (recurrence t d).

Lemma in_powers_ok c t : peval (in_powers c) t = chebyshev_sum t (map Q2R c).
Proof.
  assert (H : peval (fst (clenshaw_powers c)) t = fst (recurrence t (map Q2R c)) /\
              peval (snd (clenshaw_powers c)) t = snd (recurrence t (map Q2R c))).
  { induction c as [|q c [IH IH']]; [split; reflexivity|]. cbn [clenshaw_powers map recurrence].
    destruct (clenshaw_powers c) as [b b'], (recurrence t (map Q2R c)) as [r r']. cbn [fst snd] in *.
    rewrite !peval_add. cbn [peval]. rewrite !peval_scale, IH, IH', Q2R_0, Q2R_neg1.
    rewrite Q2R_2. split; ring. }
  destruct H as [H H']. unfold in_powers, chebyshev_sum. destruct (clenshaw_powers c) as [b b'].
  cbn [fst snd] in *. rewrite peval_add. cbn [peval]. rewrite peval_scale, H, H', Q2R_0, Q2R_neg1. ring.
Qed.

(** d_1 V_k + d_2 V_(k+1) + ... *)
Fixpoint weigh (V : nat -> R) (k : nat) (d : list R) : R :=
  match d with [] => 0 | a :: d => a * V k + weigh V (S k) d end.

Lemma recurrence_ok t V : (forall k, V (S (S k)) = 2 * t * V (S k) - V k) -> forall d k,
  V (S k) * fst (recurrence t d) - V k * snd (recurrence t d) = weigh V (S k) d.
Proof.
  intros H d. induction d as [|a d IH]; intros k; cbn [recurrence weigh]; [cbn [fst snd]; ring|].
  specialize (IH (S k)). destruct (recurrence t d) as [b b']. cbn [fst snd] in *. rewrite <- IH, H. ring.
Qed.

(** T_k and U_(k-1) at t. *)
Fixpoint polynomials (t : R) (k : nat) : R * R :=
  match k with
  | O => (1, 0)
  | S k => let (T, U) := polynomials t k in (t * T + (t * t - 1) * U, t * U + T)
  end.
Definition first (t : R) (k : nat) : R := fst (polynomials t k).
Definition second (t : R) (k : nat) : R := snd (polynomials t k).

Lemma first_step t k : first t (S (S k)) = 2 * t * first t (S k) - first t k.
Proof. unfold first. cbn [polynomials]. destruct (polynomials t k) as [T U]. cbn [fst]. ring. Qed.

Lemma second_step t k : second t (S (S k)) = 2 * t * second t (S k) - second t k.
Proof. unfold second. cbn [polynomials]. destruct (polynomials t k) as [T U]. cbn [snd]. ring. Qed.

Lemma second_first t k : second t (S (S k)) = second t k + 2 * first t (S k).
Proof.
  unfold first, second. cbn [polynomials]. destruct (polynomials t k) as [T U]. cbn [fst snd]. ring.
Qed.

Lemma chebyshev_sum_ok t d : chebyshev_sum t d = weigh (first t) 1 d.
Proof.
  rewrite <- (recurrence_ok t (first t) (first_step t)). unfold chebyshev_sum, first.
  cbn [polynomials fst]. ring.
Qed.

Lemma recurrence_first t d : fst (recurrence t d) = weigh (second t) 1 d.
Proof.
  rewrite <- (recurrence_ok t (second t) (second_step t)). unfold second. cbn [polynomials snd]. ring.
Qed.

(** ** How large Chebyshev polynomials are *)

Lemma first_inside t k : Rabs t <= 1 -> Rabs (first t k) <= 1.
Proof.
  intros H.
  assert (P : first t k * first t k + (1 - t * t) * (second t k * second t k) = 1).
  { unfold first, second. induction k as [|k IH]; cbn [polynomials fst snd]; [ring|].
    destruct (polynomials t k) as [T U]. cbn [fst snd] in *.
    transitivity (T * T + (1 - t * t) * (U * U)); [ring|exact IH]. }
  assert (S : t * t <= 1) by (rewrite <- Rabs_R1 in H; apply Rsqr_le_abs_1 in H; unfold Rsqr in H; lra).
  pose proof (Rle_0_sqr (second t k)) as Q. unfold Rsqr in Q.
  assert (0 <= (1 - t * t) * (second t k * second t k)) by (apply Rmult_le_pos; lra).
  rewrite <- Rabs_R1. apply Rsqr_le_abs_0. unfold Rsqr. lra.
Qed.

Lemma beyond_ok r t k :
  1 <= Q2R r -> Rabs t <= Q2R r ->
  let '(T, U) := beyond r k in
  1 <= Q2R T /\ 0 <= Q2R U /\ Rabs (first t k) <= Q2R T /\
  (1 <= Rabs t -> Rabs (second t k) <= Q2R U).
Proof.
  intros R1 H. induction k as [|k IH].
  - cbn [beyond]. unfold first, second. cbn [polynomials fst snd].
    rewrite Q2R_1, Q2R_0, Rabs_R1, Rabs_R0. lra.
  - cbn [beyond]. destruct (beyond r k) as [T U]. destruct IH as [T1 [U0 [HT HU]]].
    set (T' := up _). set (U' := up _).
    assert (ET : Q2R r * Q2R T + (Q2R r * Q2R r - 1) * Q2R U <= Q2R T').
    { unfold T'. eapply Rle_trans; [|apply up_ok]. autorewrite with q2r. lra. }
    assert (EU : Q2R r * Q2R U + Q2R T <= Q2R U').
    { unfold U'. eapply Rle_trans; [|apply up_ok]. autorewrite with q2r. lra. }
    clearbody T' U'.
    assert (RR : 1 * 1 <= Q2R r * Q2R r) by (apply Rmult_le_compat; lra).
    assert (A : 1 * 1 <= Q2R r * Q2R T) by (apply Rmult_le_compat; lra).
    assert (B : 0 <= (Q2R r * Q2R r - 1) * Q2R U) by (apply Rmult_le_pos; lra).
    assert (C : 0 <= Q2R r * Q2R U) by (apply Rmult_le_pos; lra).
    split; [lra|]. split; [lra|].
    assert (Step : 1 <= Rabs t -> Rabs (first t (S k)) <= Q2R T' /\ Rabs (second t (S k)) <= Q2R U').
    { intros O. specialize (HU O). revert HT HU. unfold first, second. cbn [polynomials].
      destruct (polynomials t k) as [a b]. cbn [fst snd]. intros HT HU. split.
      - eapply Rle_trans; [apply Rabs_triang|]. eapply Rle_trans; [|exact ET]. rewrite !Rabs_mult.
        apply Rplus_le_compat; apply Rmult_le_compat; trivial using Rabs_pos.
        assert (Q : Rabs t * Rabs t = t * t)
          by (rewrite <- Rabs_mult; apply Rabs_pos_eq, (Rle_0_sqr t)).
        assert (1 * 1 <= Rabs t * Rabs t) by (apply Rmult_le_compat; lra).
        assert (Rabs t * Rabs t <= Q2R r * Q2R r) by (apply Rmult_le_compat; trivial using Rabs_pos).
        rewrite Rabs_pos_eq; lra.
      - eapply Rle_trans; [apply Rabs_triang|]. eapply Rle_trans; [|exact EU]. rewrite Rabs_mult.
        apply Rplus_le_compat; trivial. apply Rmult_le_compat; trivial using Rabs_pos. }
    split; [|intros O; now apply Step].
    destruct (Rle_lt_dec (Rabs t) 1) as [I|O]; [|apply Step; lra].
    pose proof (first_inside t (S k) I). lra.
Qed.

Lemma beyond_grows r k : 1 <= Q2R r -> Q2R (fst (beyond r k)) <= Q2R (fst (beyond r (S k))).
Proof.
  intros R1. assert (H : Rabs 0 <= Q2R r) by (rewrite Rabs_R0; lra).
  pose proof (beyond_ok r 0 k R1 H) as B. cbn [beyond]. destruct (beyond r k) as [T U].
  destruct B as [T1 [U0 _]]. cbn [fst]. eapply Rle_trans; [|apply up_ok]. autorewrite with q2r.
  assert (1 * 1 <= Q2R r * Q2R r) by (apply Rmult_le_compat; lra).
  assert (1 * Q2R T <= Q2R r * Q2R T) by (apply Rmult_le_compat_r; lra).
  assert (0 <= (Q2R r * Q2R r - 1) * Q2R U) by (apply Rmult_le_pos; lra). lra.
Qed.

Lemma swing_ok r n t k : Rabs t <= Q2R r -> (k <= n)%nat -> Rabs (first t k) <= Q2R (swing r n).
Proof.
  intros H K. unfold swing. destruct (Qle_bool r 1) eqn:E.
  - apply qle_ok in E. rewrite Q2R_1 in *. apply first_inside. lra.
  - assert (R1 : 1 <= Q2R r).
    { assert (L : qlt 1 r = true) by (unfold qlt; now rewrite E). apply qlt_iff in L.
      rewrite Q2R_1 in L. lra. }
    pose proof (beyond_ok r t k R1 H) as B. apply Rle_trans with (Q2R (fst (beyond r k))).
    + destruct (beyond r k) as [T U]. cbn [fst]. tauto.
    + clear B. induction K as [|n K IH]; [lra|]. eapply Rle_trans; [exact IH|now apply beyond_grows].
Qed.

Lemma second_ok r n t k :
  Rabs t <= Q2R r -> (k <= S n)%nat -> Rabs (second t k) <= INR k * Q2R (swing r n).
Proof.
  intros H. assert (O : 1 <= Q2R (swing r n)).
  { pose proof (swing_ok r n t 0 H (Nat.le_0_l n)) as S. unfold first in S. cbn [polynomials fst] in S.
    now rewrite Rabs_R1 in S. }
  assert (Both : ((k <= S n)%nat -> Rabs (second t k) <= INR k * Q2R (swing r n)) /\
                 ((S k <= S n)%nat -> Rabs (second t (S k)) <= INR (S k) * Q2R (swing r n))); [|tauto].
  induction k as [|k [IH IH']].
  - unfold second. cbn [polynomials snd INR]. rewrite Rmult_0_r, Rplus_0_l, Rabs_R0, Rabs_R1. lra.
  - split; [exact IH'|]. intros K. rewrite second_first.
    eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult, (Rabs_pos_eq 2) by lra.
    assert (A : Rabs (second t k) <= INR k * Q2R (swing r n)) by (apply IH; lia).
    assert (B : Rabs (first t (S k)) <= Q2R (swing r n)) by (apply swing_ok; [exact H|lia]).
    rewrite !S_INR. lra.
Qed.

Fixpoint sizes (d : list R) : R := match d with [] => 0 | a :: d => Rabs a + sizes d end.
Fixpoint moments (d : list R) : R := match d with [] => 0 | a :: d => sizes (a :: d) + moments d end.

Lemma sizes_pos d : 0 <= sizes d.
Proof. induction d as [|a d IH]; cbn [sizes]; [lra|]. pose proof (Rabs_pos a). lra. Qed.

Lemma weigh_first r n t d k :
  Rabs t <= Q2R r -> (k + length d <= n)%nat ->
  Rabs (weigh (first t) (S k) d) <= Q2R (swing r n) * sizes d.
Proof.
  intros H. revert k; induction d as [|a d IH]; intros k K; cbn [weigh sizes length] in *.
  - rewrite Rabs_R0. lra.
  - eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult.
    assert (A : Rabs a * Rabs (first t (S k)) <= Rabs a * Q2R (swing r n))
      by (apply Rmult_le_compat_l; [apply Rabs_pos|]; apply swing_ok; [exact H|lia]).
    assert (B : Rabs (weigh (first t) (S (S k)) d) <= Q2R (swing r n) * sizes d) by (apply IH; lia).
    lra.
Qed.

Lemma weigh_second r n t d k :
  Rabs t <= Q2R r -> (k + length d <= n)%nat ->
  Rabs (weigh (second t) (S k) d) <= Q2R (swing r n) * (INR k * sizes d + moments d).
Proof.
  intros H. revert k; induction d as [|a d IH]; intros k K; cbn [weigh sizes moments length] in *.
  - rewrite Rabs_R0. lra.
  - eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult.
    assert (A : Rabs a * Rabs (second t (S k)) <= Rabs a * (INR (S k) * Q2R (swing r n)))
      by (apply Rmult_le_compat_l; [apply Rabs_pos|]; apply second_ok; [exact H|lia]).
    assert (B : Rabs (weigh (second t) (S (S k)) d) <= Q2R (swing r n) * (INR (S k) * sizes d + moments d))
      by (apply IH; lia).
    rewrite S_INR in A, B. lra.
Qed.

(** ** In floating-point arithmetic *)

Fixpoint added (a b : list R) : list R :=
  match a, b with x :: a, y :: b => (x + y) :: added a b | _, _ => [] end.

Lemma weigh_added V k a b :
  length a = length b -> weigh V k (added a b) = weigh V k a + weigh V k b.
Proof.
  revert b k; induction a as [|x a IH]; intros [|y b] k L; cbn [length] in L; try discriminate;
    cbn [added weigh]; [ring|]. rewrite IH by lia. ring.
Qed.

Lemma added_length a b : length a = length b -> length (added a b) = length b.
Proof.
  revert b; induction a as [|x a IH]; intros [|y b] L; cbn [length] in L; try discriminate; trivial.
  cbn [added length]. rewrite IH; lia.
Qed.

Lemma size_of_coefficients c : sizes (map Q2R c) = Q2R (absolute c).
Proof.
  induction c as [|q c IH]; cbn [map sizes absolute fold_right]; [now rewrite Q2R_0|].
  fold (absolute c). now rewrite Q2R_qadd, Q2R_abs, IH.
Qed.

Section Format.
  Variable f : format.
  Variable low : Z.
  Hypothesis Hf : (0 < digits f)%Z.
  Hypothesis Hlow : (lowest f - 1 <= low)%Z.
  Variables (r E : Q) (t t' : R).
  Hypothesis Ht : Rabs t <= Q2R r.
  Hypothesis HE : Rabs (t' - t) <= Q2R E.

  (** b and b' are what the recurrence gives for the coefficients c, off by d. *)
  Definition follows (p : course) (c : list Q) (d : list R) (b b' m : R) : Prop :=
    length d = length c /\ recurrence t (added (map Q2R c) d) = (b, b') /\
    sizes (added (map Q2R c) d) <= Q2R (mass p) /\ moments (added (map Q2R c) d) <= Q2R (moment p) /\
    sizes d <= Q2R (wrong p) /\ Rabs b <= Q2R (now p) /\ Rabs b' <= Q2R (before p) /\ m <= Q2R (most p).

  Lemma t'_ok : Rabs t' <= Q2R r + Q2R E.
  Proof.
    replace t' with (t + (t' - t)) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra.
  Qed.

  Lemma summands_ok c p b b' :
    Rabs b <= Q2R (now p) -> Rabs b' <= Q2R (before p) ->
    magnitude [Term (rnd f (Q2R c)); Term (- b'); Product (2 * t') b] <= Q2R (summands f low r E c p).
  Proof.
    intros B B'. unfold magnitude, summands. cbn [fold_right worth]. eapply Rle_trans; [|apply up_ok].
    autorewrite with q2r. rewrite Q2R_2, Rabs_Ropp, !Rabs_mult, (Rabs_pos_eq 2) by lra.
    assert (Rabs t' * Rabs b <= (Q2R r + Q2R E) * Q2R (now p))
      by (apply Rmult_le_compat; trivial using Rabs_pos, t'_ok).
    pose proof (weight_error_ok f low Hf Hlow c).
    pose proof (Rabs_triang (Q2R c) (rnd f (Q2R c) - Q2R c)) as A.
    replace (Q2R c + (rnd f (Q2R c) - Q2R c)) with (rnd f (Q2R c)) in A by ring. lra.
  Qed.

  Lemma advance_ok n c l p d b b' m v s :
    (length (c :: l) <= n)%nat -> follows p l d b b' m ->
    Rabs (v - (rnd f (Q2R c) - b' + 2 * t' * b))
      <= Q2R (sum_error (unit_of f low) 2 3 (summands f low r E c p)) ->
    s <= Q2R (summands f low r E c p) + Q2R (sum_error (unit_of f low) 2 3 (summands f low r E c p)) ->
    exists d', follows (advance f low r E (swing r n) c p) (c :: l) d' v b (Rmax m s).
  Proof.
    intros Hn (L & Re & Ma & Mo & Wr & B & B' & Hm) Noise Hs.
    set (size := summands f low r E c p) in *. set (e := sum_error _ 2 3 size) in *.
    set (w := rnd f (Q2R c)) in *. pose proof (weight_error_ok f low Hf Hlow c) as W. fold w in W.
    exists ((w - Q2R c + (v - (w - b' + 2 * t' * b)) + 2 * (t' - t) * b) :: d).
    set (d0 := w - Q2R c + (v - (w - b' + 2 * t' * b)) + 2 * (t' - t) * b).
    assert (D0 : Rabs d0 <= Q2R (weight_error f low c) + Q2R e + 2 * Q2R E * Q2R (now p)).
    { unfold d0. eapply Rle_trans; [apply Rabs_triang|]. eapply Rle_trans;
        [apply Rplus_le_compat_r, Rabs_triang|]. rewrite !Rabs_mult, (Rabs_pos_eq 2) by lra.
      assert (Rabs (t' - t) * Rabs b <= Q2R E * Q2R (now p))
        by (apply Rmult_le_compat; trivial using Rabs_pos). lra. }
    unfold advance. fold size. fold e. set (off := up (qadd (qadd _ e) _)).
    assert (O : Rabs d0 <= Q2R off).
    { eapply Rle_trans; [exact D0|]. unfold off. eapply Rle_trans; [|apply up_ok].
      autorewrite with q2r. rewrite Q2R_2. lra. }
    set (M1 := up (qadd (mass p) _)). set (M2 := up (qadd (moment p) M1)).
    assert (A : Rabs (Q2R c + d0) <= Rabs (Q2R c) + Q2R off) by (eapply Rle_trans; [apply Rabs_triang|]; lra).
    assert (K1 : sizes (added (map Q2R (c :: l)) (d0 :: d)) <= Q2R M1).
    { unfold M1. eapply Rle_trans; [|apply up_ok]. cbn [map added sizes]. autorewrite with q2r. lra. }
    assert (K2 : moments (added (map Q2R (c :: l)) (d0 :: d)) <= Q2R M2).
    { unfold M2. eapply Rle_trans; [|apply up_ok]. cbn [map added moments] in *. rewrite Q2R_qadd.
      cbn [map added] in K1. lra. }
    assert (Len : length (d0 :: d) = length (c :: l)) by (cbn [length]; lia).
    assert (Eq : recurrence t (added (map Q2R (c :: l)) (d0 :: d)) = (v, b)).
    { cbn [map added recurrence]. rewrite Re. unfold d0. f_equal. ring. }
    unfold follows. cbn [mass moment wrong now before most].
    split; [exact Len|]. split; [exact Eq|]. split; [exact K1|]. split; [exact K2|].
    split.
    { eapply Rle_trans; [|apply up_ok]. cbn [sizes]. rewrite Q2R_qadd. lra. }
    split; [|split; [exact B|]].
    - eapply Rle_trans; [|apply up_ok]. rewrite Q2R_qmul.
      replace v with (fst (recurrence t (added (map Q2R (c :: l)) (d0 :: d)))) by now rewrite Eq.
      rewrite recurrence_first. eapply Rle_trans.
      + apply (weigh_second r n); [exact Ht|]. rewrite added_length by (now rewrite map_length, Len).
        rewrite Len. cbn [Nat.add]. exact Hn.
      + cbn [INR]. rewrite Rmult_0_l, Rplus_0_l. apply Rmult_le_compat_l; [|exact K2].
        eapply Rle_trans; [apply Rabs_pos|]. apply (swing_ok r n t 0 Ht), Nat.le_0_l.
    - apply Rmax_lub; apply qmax_ok; [now left|right]. rewrite Q2R_qadd. exact Hs.
  Qed.

  Lemma course_ok n l b b' m :
    (length l <= n)%nat -> clenshaw f t' l b b' m ->
    exists d, follows (course_of f low r E (swing r n) l) l d b b' m.
  Proof.
    assert (None : follows (Course 0 0 0 0 0 0) [] [] 0 0 0).
    { unfold follows. cbn [map added recurrence sizes moments length mass moment wrong now before most].
      rewrite Rabs_R0, Q2R_0. repeat split; lra. }
    intros Hn H. induction H as [|c|c l b b' m v s H IH S].
    - exists []. exact None.
    - cbn [course_of fold_right]. set (p := Course 0 0 0 0 0 0) in *. set (w := rnd f (Q2R c)).
      assert (A : Rabs w <= Q2R (summands f low r E c p)).
      { destruct None as (_ & _ & _ & _ & _ & B & B' & _).
        eapply Rle_trans; [|apply (summands_ok c p _ _ B B')].
        unfold magnitude. cbn [fold_right worth]. fold w. rewrite Rmult_0_r, Ropp_0, Rabs_R0. lra. }
      pose proof (Rabs_pos w) as P.
      assert (N : 0 <= Q2R (sum_error (unit_of f low) 2 3 (summands f low r E c p)))
        by (apply sum_error_pos; lra).
      rewrite <- (Rmax_right 0 (Rabs w)) by exact P.
      apply (advance_ok n c [] p [] 0 0 0 w _ Hn None); fold w; [|lra].
      replace (w - (w - 0 + 2 * t' * 0)) with 0 by ring. now rewrite Rabs_R0.
    - destruct IH as [d F]; [cbn [length] in Hn; lia|]. cbn [course_of fold_right].
      fold (course_of f low r E (swing r n) l). set (p := course_of f low r E (swing r n) l) in *.
      assert (A : magnitude [Term (rnd f (Q2R c)); Term (- b'); Product (2 * t') b]
                  <= Q2R (summands f low r E c p))
        by (destruct F as (_ & _ & _ & _ & _ & B & B' & _); now apply summands_ok).
      destruct (summed_ok f low Hf Hlow _ _ _ _ S) as [_ [Es Ms]].
      pose proof (sum_error_ok f low 2 _ _ 3 A (le_n 3) (le_S _ _ (le_S _ _ (le_n 1)))) as K.
      apply (advance_ok n c l p d b b' m v s Hn F); [|lra].
      unfold total in Es. cbn [fold_right worth] in Es.
      replace (v - (rnd f (Q2R c) - b' + 2 * t' * b))
        with (v - (rnd f (Q2R c) + (- b' + (2 * t' * b + 0)))) by ring. lra.
  Qed.

  Lemma clenshaw_ok l b b' m v s :
    clenshaw f t' l b b' m -> summed f 2 [Product t' b; Term (- b')] v s ->
    let '(size, error, M) := clenshaw_bound f low r E l in
    Rabs (peval (in_powers l) t) <= Q2R size /\ Rabs (v - peval (in_powers l) t) <= Q2R error /\
    Rmax (Rmax m s) (Rabs (2 * t')) <= Q2R M.
  Proof.
    intros H S. unfold clenshaw_bound. cbv zeta. set (n := length l). set (G := swing r n).
    destruct (course_ok n l b b' m (le_n n) H) as (d & L & Re & _ & _ & Wr & B & B' & Hm).
    fold G in Wr, B, B', Hm. set (p := course_of f low r E G l) in *. set (size := up (qadd _ (before p))).
    set (noise := sum_error _ 2 2 size).
    assert (G0 : 0 <= Q2R G).
    { eapply Rle_trans; [apply Rabs_pos|]. apply (swing_ok r n t 0 Ht), Nat.le_0_l. }
    assert (A : magnitude [Product t' b; Term (- b')] <= Q2R size).
    { unfold magnitude, size. cbn [fold_right worth]. eapply Rle_trans; [|apply up_ok].
      autorewrite with q2r. rewrite Rabs_Ropp, Rabs_mult.
      assert (Rabs t' * Rabs b <= (Q2R r + Q2R E) * Q2R (now p))
        by (apply Rmult_le_compat; trivial using Rabs_pos, t'_ok). lra. }
    pose proof (sum_error_ok f low 2 _ size 2 A (le_n 2) (le_S _ _ (le_n 1))) as K. fold noise in K.
    destruct (summed_ok f low Hf Hlow _ _ _ _ S) as [_ [Es Ms]].
    rewrite in_powers_ok. split; [|split].
    - eapply Rle_trans; [|apply up_ok]. rewrite Q2R_qmul, chebyshev_sum_ok, <- size_of_coefficients.
      apply weigh_first; [exact Ht|]. rewrite map_length. cbn [Nat.add]. apply le_n.
    - eapply Rle_trans; [|apply up_ok]. autorewrite with q2r.
      assert (D : t * b - b' - chebyshev_sum t (map Q2R l) = weigh (first t) 1 d).
      { replace (t * b - b') with (chebyshev_sum t (added (map Q2R l) d))
          by (unfold chebyshev_sum; rewrite Re; reflexivity).
        rewrite !chebyshev_sum_ok, weigh_added by (now rewrite map_length, L). ring. }
      unfold total in Es. cbn [fold_right worth] in Es.
      replace (v - chebyshev_sum t (map Q2R l))
        with ((t * b - b' - chebyshev_sum t (map Q2R l)) + (t' - t) * b
              + (v - (t' * b + (- b' + 0)))) by ring.
      rewrite D. eapply Rle_trans; [apply Rabs_triang|].
      eapply Rle_trans; [apply Rplus_le_compat_r, Rabs_triang|]. rewrite (Rabs_mult (t' - t)).
      assert (X : Rabs (weigh (first t) 1 d) <= Q2R G * Q2R (wrong p)).
      { eapply Rle_trans; [apply (weigh_first r n); [exact Ht|rewrite L; apply le_n]|].
        apply Rmult_le_compat_l; trivial. }
      assert (Y : Rabs (t' - t) * Rabs b <= Q2R E * Q2R (now p))
        by (apply Rmult_le_compat; trivial using Rabs_pos).
      lra.
    - apply Rmax_lub; [apply Rmax_lub|]; apply qmax_ok.
      + left. apply qmax_ok. now left.
      + left. apply qmax_ok. right. rewrite Q2R_qadd. lra.
      + right. autorewrite with q2r. rewrite Q2R_2, Rabs_mult, (Rabs_pos_eq 2) by lra. pose proof t'_ok. lra.
  Qed.
End Format.
