(** What the checker of softmax attention accepts is true. *)

From Coq Require Import Arith Reals QArith Qreals Qabs List Bool Lra Lia.
From Exactformer Require Import Semantics Softmax Rationals OneVariable Tokens Domains Selection
  Identity Checker Soundness Logistic SoftChecker.
Import ListNotations.
Open Scope R_scope.

(** ** Numbers and lists *)

Lemma qmax_left a b : Q2R a <= Q2R (qmax a b).
Proof. unfold qmax. destruct (Qle_bool a b) eqn:E; [now apply qle_ok|lra]. Qed.

Lemma qmax_right a b : Q2R b <= Q2R (qmax a b).
Proof.
  unfold qmax. destruct (Qle_bool a b) eqn:E; [lra|].
  assert (L : qlt b a = true) by (unfold qlt; now rewrite E). apply qlt_iff in L. lra.
Qed.

Lemma same_number_ok a b : same_number a b = true -> a = b.
Proof.
  unfold same_number. destruct a as [n d], b as [m e]. cbn [Qnum Qden].
  destruct (Z.eqb_spec n m) as [->|]; [|discriminate]. intros H. apply Pos.eqb_eq in H. now subst.
Qed.

Lemma same_list_ok {X} (same : X -> X -> bool) (H : forall x y, same x y = true -> x = y) a b :
  same_list same a b = true -> a = b.
Proof.
  revert b; induction a as [|x a IH]; intros [|y b] E; cbn [same_list] in E; try discriminate; trivial.
  destruct (same x y) eqn:S; [|discriminate]. now rewrite (H _ _ S), (IH _ E).
Qed.

Lemma same_matrix_ok M N : same_matrix M N = true -> M = N.
Proof.
  apply same_list_ok. intros a b. apply same_list_ok. intros [j q] [k r] H. unfold same_entry in H.
  cbn [fst snd] in H. destruct (Nat.eqb_spec j k) as [->|]; [|discriminate].
  now rewrite (same_number_ok _ _ H).
Qed.

Lemma same_pairs_ok a b : same_list same_pair a b = true -> a = b.
Proof.
  apply same_list_ok. intros [p q] [r s] H. unfold same_pair in H. cbn [fst snd] in H.
  destruct (same_number p r) eqn:E; [|discriminate].
  now rewrite (same_number_ok _ _ E), (same_number_ok _ _ H).
Qed.

Lemma traverse_length {X Y} (f : X -> option Y) l r : traverse f l = Some r -> length r = length l.
Proof.
  revert r; induction l as [|x l IH]; intros r H; cbn [traverse] in H; [now injection H as <-|].
  destruct (f x); [|discriminate]. destruct (traverse f l); [|discriminate].
  injection H as <-. simpl. now rewrite (IH _ eq_refl).
Qed.

Lemma traverse_nth {X Y} (f : X -> option Y) l r dx dy k :
  traverse f l = Some r -> (k < length l)%nat -> f (nth k l dx) = Some (nth k r dy).
Proof.
  revert r k; induction l as [|x l IH]; intros r k H Hk; cbn [traverse length] in *; [lia|].
  destruct (f x) eqn:E; [|discriminate]. destruct (traverse f l) eqn:T; [|discriminate].
  injection H as <-. destruct k as [|k]; [exact E|]. apply (IH l0 k eq_refl). lia.
Qed.

Lemma peval_zeros p t : forallb zero p = true -> peval p t = 0.
Proof.
  induction p as [|c p IH]; cbn [forallb peval]; trivial. intros H.
  destruct (zero c) eqn:Z; [|discriminate]. rewrite (zero_ok _ Z), (IH H). ring.
Qed.

Lemma peval_fixed p t : fixed p = true -> peval p t = Q2R (hd 0%Q p).
Proof.
  unfold fixed. destruct p as [|c p]; cbn [tl hd peval]; [now rewrite Q2R_0|].
  intros H. rewrite (peval_zeros _ _ H). ring.
Qed.

(** ** Tokens with errors *)

Definition close (D : domain) (x : list R) (a : shaken) (v : vector) : Prop :=
  reach_ok D (direction (core a)) (bound (core a)) = true /\
  forall d, Rabs (v d - tval (entries (core a)) (feature_of D x (core a)) (place d))
            <= Q2R (slip_at (slips a) (place d)).

Definition all_close (D : domain) (x : list R) (A : list shaken) (z : stream) : Prop :=
  forall i, (i < length A)%nat -> close D x (nth i A still) (z i).

Section Tokens.
  Variables (D : domain) (x : list R).
  Hypothesis Hx : inside D x.
  Let t (a : shaken) : R := feature_of D x (core a).

  Lemma t_small a v : close D x a v -> Rabs (t a) <= Q2R (bound (core a)).
  Proof. intros [R _]. now apply reach_sound. Qed.

  Lemma row_close row a v :
    close D x a v -> Rabs (row_times row v - peval (poly row a) (t a)) <= Q2R (slip row a).
  Proof.
    intros [_ C]. unfold poly, slip.
    induction row as [|[j q] row IH]; cbn [row_times row_of fold_right row_slip fst snd peval].
    - rewrite Rminus_diag_eq by trivial. rewrite Rabs_R0, Q2R_0. lra.
    - fold (row_of row (entries (core a))). rewrite peval_add, peval_scale, tget_ok.
      autorewrite with q2r. specialize (C j). fold (t a) in C.
      replace (_ - _) with (Q2R q * (v j - tval (entries (core a)) (t a) (place j))
        + (row_times row v - peval (row_of row (entries (core a))) (t a))) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat; trivial. rewrite Rabs_mult.
      apply Rmult_le_compat_l; trivial using Rabs_pos.
  Qed.

  Lemma settled_ok row a v q : close D x a v -> settled row a = Some q -> row_times row v = Q2R q.
  Proof.
    intros C H. unfold settled in H. cbv zeta in H. destruct (fixed _) eqn:F; [|discriminate].
    destruct (zero _) eqn:Z; [|discriminate]. injection H as <-.
    pose proof (row_close row a v C) as B. rewrite (zero_ok _ Z), (peval_fixed _ _ F) in B.
    apply between in B. lra.
  Qed.

  Definition lies (b : interval) (a : R) : Prop := Q2R (fst b) <= a <= Q2R (snd b).

  Lemma range_lies a v row : close D x a v -> lies (range a row) (row_times row v).
  Proof.
    intros C. pose proof (row_close row a v C) as B.
    pose proof (range_ok _ (poly row a) _ (t_small a v C)) as R. unfold middle, spread in R.
    apply between in B. apply between in R. unfold lies, range. cbv zeta. cbn [fst snd].
    autorewrite with q2r. lra.
  Qed.

  Lemma nothing_lies : lies (0%Q, 0%Q) 0.
  Proof. unfold lies. cbn [fst snd]. rewrite Q2R_0. lra. Qed.

  Lemma top_ok q k f a b c : lies q a -> lies k b -> lies f c -> a * (b - c) <= Q2R (top q k f).
  Proof.
    unfold lies. intros A B C. unfold top. destruct (if zero (fst q) then _ else _) eqn:Z.
    { destruct (zero (fst q)) eqn:Z1; [|discriminate]. apply zero_ok in Z1. apply zero_ok in Z.
      replace a with 0 by lra. rewrite Q2R_0. lra. }
    cbv zeta.
    set (l := qsub (fst k) (snd f)). set (h := qsub (snd k) (fst f)).
    assert (L : Q2R l <= b - c) by (unfold l; autorewrite with q2r; lra).
    assert (H : b - c <= Q2R h) by (unfold h; autorewrite with q2r; lra).
    assert (E : forall s, a * Q2R s <= Q2R (qmax (qmul (fst q) s) (qmul (snd q) s))).
    { intros s. destruct (Rle_lt_dec 0 (Q2R s)) as [S|S].
      - eapply Rle_trans; [|apply qmax_right]. rewrite Q2R_qmul. apply Rmult_le_compat_r; lra.
      - eapply Rle_trans; [|apply qmax_left]. rewrite Q2R_qmul, !(Rmult_comm _ (Q2R s)).
        apply Rmult_le_compat_neg_l; lra. }
    assert (M : forall s, s = l \/ s = h ->
      Q2R (qmax (qmul (fst q) s) (qmul (snd q) s))
      <= Q2R (qmax (qmax (qmul (fst q) l) (qmul (fst q) h)) (qmax (qmul (snd q) l) (qmul (snd q) h)))).
    { intros s Hs. set (m := qmax (qmax _ _) (qmax _ _)).
      assert (F : Q2R (qmul (fst q) s) <= Q2R m).
      { eapply Rle_trans; [|apply qmax_left]. destruct Hs as [-> | ->]; [apply qmax_left|apply qmax_right]. }
      assert (G : Q2R (qmul (snd q) s) <= Q2R m).
      { eapply Rle_trans; [|apply qmax_right]. destruct Hs as [-> | ->]; [apply qmax_left|apply qmax_right]. }
      unfold qmax at 1. now destruct (Qle_bool _ _). }
    destruct (Rle_lt_dec 0 a) as [P|P].
    - apply Rle_trans with (a * Q2R h); [apply Rmult_le_compat_l; lra|].
      eapply Rle_trans; [apply E|]. apply M. now right.
    - apply Rle_trans with (a * Q2R l); [apply Rmult_le_compat_neg_l; lra|].
      eapply Rle_trans; [apply E|]. apply M. now left.
  Qed.

  (** ** Differences of scores *)

  Definition score_gap (Q K : matrix) (u v w : vector) : R :=
    sum (fun r => row_times (nth r Q []) u * (row_times (nth r K []) v - row_times (nth r K []) w))
      (length Q).

  Lemma score_difference h z i j k :
    bias h = [] -> score h z i j - score h z i k = score_gap (query h) (key h) (z i) (z j) (z k).
  Proof.
    intros B. unfold score, score_gap. rewrite B.
    replace (sum _ _ - sum _ _) with
      (sum (fun r => (times (query h) (z i) r + dense [] r) * times (key h) (z j) r) (length (query h))
       + -1 * sum (fun r => (times (query h) (z i) r + dense [] r) * times (key h) (z k) r)
           (length (query h))) by ring.
    rewrite <- sum_scale, <- sum_plus. apply sum_ext. intros r _. unfold times. cbn [dense]. ring.
  Qed.

  Lemma score_gap_cons row Q K u v w :
    score_gap (row :: Q) K u v w
    = row_times row u * (row_times (hd [] K) v - row_times (hd [] K) w) + score_gap Q (tl K) u v w.
  Proof.
    unfold score_gap. cbn [length sum nth]. f_equal; [now destruct K|].
    apply sum_ext. intros r _. destruct K; [now destruct r|reflexivity].
  Qed.

  Lemma ahead_ok Q K a b c u v w :
    close D x a u -> close D x b v -> close D x c w ->
    score_gap Q K u v w <= Q2R (ahead (map (range a) Q) (map (range b) K) (map (range c) K)).
  Proof.
    intros A B C. revert K; induction Q as [|row Q IH]; intros K.
    - unfold score_gap. cbn [length sum map ahead]. rewrite Q2R_0. lra.
    - rewrite score_gap_cons. cbn [map ahead]. rewrite Q2R_qadd. apply Rplus_le_compat.
      + destruct K as [|k K]; cbn [map hd].
        * apply top_ok; try apply nothing_lies. now apply range_lies.
        * apply top_ok; now apply range_lies.
      + specialize (IH (tl K)). destruct K; exact IH.
  Qed.

  Lemma gap_ok Q K a p u v g e :
    close D x a u -> close D x p v -> gap Q K a p = Some (g, e) ->
    Rabs (score_gap Q K u u v - peval g (t a)) <= Q2R e.
  Proof.
    intros A P. pose proof (t_small a u A) as T.
    revert K g e; induction Q as [|row Q IH]; intros K g e H; cbn [gap] in H.
    - injection H as <- <-. unfold score_gap. cbn [length sum peval].
      rewrite Rminus_diag_eq by trivial. rewrite Rabs_R0, Q2R_0. lra.
    - destruct (gap Q (tl K) a p) as [[g' e']|] eqn:G; [|discriminate]. cbv zeta in H.
      set (k := hd [] K) in *. specialize (IH _ _ _ G). rewrite score_gap_cons. fold k.
      destruct (if forallb zero (poly row a) then _ else _) eqn:Z0.
      { destruct (forallb zero (poly row a)) eqn:Zp; [|discriminate]. injection H as <- <-.
        pose proof (row_close row a u A) as Eq. rewrite (zero_ok _ Z0), (peval_zeros _ _ Zp) in Eq.
        apply between in Eq. replace (row_times row u) with 0 by lra. now rewrite Rmult_0_l, Rplus_0_l. }
      clear Z0. destruct (fixed (poly k p)) eqn:F; [|discriminate].
      injection H as <- <-.
      set (w := padd (poly k a) [Qopp (hd 0%Q (poly k p))]).
      set (dq := slip row a). set (dk := qadd (slip k a) (slip k p)).
      pose proof (row_close row a u A) as Eq. pose proof (row_close k a u A) as Ek.
      pose proof (row_close k p v P) as Ep. rewrite (peval_fixed _ _ F) in Ep.
      fold dq in Eq.
      assert (W : peval w (t a) = peval (poly k a) (t a) - Q2R (hd 0%Q (poly k p))).
      { unfold w. rewrite peval_add. cbn [peval]. rewrite Q2R_opp. ring. }
      set (q0 := peval (poly row a) (t a)) in *. set (q1 := row_times row u) in *.
      set (k1 := row_times k u - row_times k v). set (k0 := peval w (t a)) in *.
      assert (EK : Rabs (k1 - k0) <= Q2R dk).
      { unfold k1, dk. rewrite W. autorewrite with q2r. apply between in Ek. apply between in Ep.
        apply Rabs_le. lra. }
      set (worst := up (qadd (qmul (size (bound (core a)) (poly row a)) dk)
        (qmul dq (qadd (size (bound (core a)) w) dk)))).
      assert (L : Rabs (q1 * k1 - q0 * k0) <= Q2R (if zero dq andalso zero dk then 0%Q else worst)).
      { assert (M : Rabs (q1 * k1 - q0 * k0) <= Q2R worst).
        { eapply Rle_trans; [|apply up_ok]. autorewrite with q2r.
          replace (q1 * k1 - q0 * k0) with (q0 * (k1 - k0) + (q1 - q0) * (k0 + (k1 - k0))) by ring.
          eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_mult.
          pose proof (size_ok _ (poly row a) _ T) as Sq. pose proof (size_ok _ w _ T) as Sw.
          fold q0 in Sq. fold k0 in Sw.
          apply Rplus_le_compat; apply Rmult_le_compat; trivial using Rabs_pos.
          eapply Rle_trans; [apply Rabs_triang|]. lra. }
        destruct (zero dq) eqn:Z; trivial. destruct (zero dk) eqn:Z'; trivial.
        apply zero_ok in Z. apply zero_ok in Z'. rewrite Z in Eq. rewrite Z' in EK.
        apply between in Eq. apply between in EK. replace q1 with q0 by lra. replace k1 with k0 by lra.
        rewrite Rminus_diag_eq by trivial. rewrite Rabs_R0, Q2R_0. lra. }
      rewrite peval_add, peval_mul, Q2R_qadd. fold q0 k0 k1.
      replace (q1 * k1 + score_gap Q (tl K) u u v - (q0 * k0 + peval g' (t a)))
        with ((q1 * k1 - q0 * k0) + (score_gap Q (tl K) u u v - peval g' (t a))) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat; trivial.
  Qed.
End Tokens.

(** ** Rows that are added *)

Lemma row_times_insert j q row v : row_times (insert j q row) v = Q2R q * v j + row_times row v.
Proof.
  induction row as [|[k c] row IH]; cbn [insert row_times]; trivial.
  destruct (Nat.eqb_spec j k) as [->|]; cbn [row_times]; [|rewrite IH; ring].
  cbv zeta. destruct (zero (qadd c q)) eqn:Z; cbn [row_times].
  - apply zero_ok in Z. rewrite Q2R_qadd in Z. replace (Q2R q) with (- Q2R c) by lra. ring.
  - rewrite Q2R_qadd. ring.
Qed.

Lemma row_times_combine c row other v :
  row_times (combine c row other) v = row_times row v + Q2R c * row_times other v.
Proof.
  unfold combine. induction other as [|[j q] other IH]; cbn [fold_right row_times fst snd]; [ring|].
  rewrite row_times_insert, IH, Q2R_qmul. ring.
Qed.

Lemma score_gap_combined c Q Q' K u v w :
  length Q = length Q' ->
  score_gap (combined c Q Q') K u v w = score_gap Q K u v w + Q2R c * score_gap Q' K u v w.
Proof.
  revert Q' K; induction Q as [|row Q IH]; intros [|row' Q'] K H; cbn [combined length] in *;
    try discriminate.
  - unfold score_gap. simpl. ring.
  - rewrite !score_gap_cons, row_times_combine, IH by lia. ring.
Qed.

(** ** Combinations *)

Fixpoint tanhs (l : pairs) (z : R) : R :=
  match l with [] => 0 | (e, c) :: l => Q2R c * half_tanh (Q2R e * z) + tanhs l z end.

Definition combines (l : pairs) (z slope error : Q) : Prop :=
  forall y, Rabs y <= Q2R z -> Rabs (tanhs l y - Q2R slope * y) <= Q2R error.

Definition guessed (g : guess) (e : Q) : Prop :=
  forall u, Rabs u <= Q2R (upto g) -> Rabs (peval (interleaved (odd g)) u - half_tanh u) <= Q2R e.

Lemma one_over N : Q2R (1 # N) = / IZR (Zpos N).
Proof. unfold Q2R. cbn [Qnum Qden]. lra. Qed.

Lemma weighed_ok g e l y M N C :
  guessed g e ->
  (forall b, In b l -> Rabs (Q2R (fst b) * y) <= Q2R (upto g)) ->
  Rabs (tanhs l y - / (IZR (Zpos N) * IZR (Zpos C))
    * peval (weighed M (pscale (Zpos N # 1) (interleaved (odd g))) (shortened C l)) (y * / IZR (Zpos M)))
  <= Q2R (lost C e (shortened C l)).
Proof.
  intros He F. set (p := interleaved (odd g)). set (whole := pscale _ p).
  assert (N0 : 0 < IZR (Zpos N)) by (apply IZR_lt; reflexivity).
  assert (M0 : 0 < IZR (Zpos M)) by (apply IZR_lt; reflexivity).
  assert (C0 : 0 < IZR (Zpos C)) by (apply IZR_lt; reflexivity).
  induction l as [|[n c] l IH];
    cbn [shortened map weighed lost fold_right tanhs fst snd peval].
  - rewrite Rmult_0_r, Rminus_0_r, Rabs_R0, Q2R_0. lra.
  - fold (shortened C l). fold (weighed M whole (shortened C l)). fold (lost C e (shortened C l)).
    specialize (IH (fun b I => F b (or_intror I))).
    set (rest := peval (weighed M whole (shortened C l)) (y * / IZR (Zpos M))) in *.
    set (c' := rounded 0 _). cbv zeta. rewrite peval_add, peval_scale, stretch_ok. fold rest.
    unfold whole. rewrite peval_scale, !Q2R_qadd, Q2R_qmul, !Q2R_integer.
    replace (IZR (Zpos M) * Q2R n * (y * / IZR (Zpos M))) with (Q2R n * y) by (field; lra).
    set (T := half_tanh (Q2R n * y)). set (P := peval p (Q2R n * y)).
    set (k := / IZR (Zpos C) * Q2R c').
    replace (Q2R c * T + tanhs l y
             - / (IZR (Zpos N) * IZR (Zpos C)) * (Q2R c' * (1 * (IZR (Zpos N) * P)) + rest))
      with ((Q2R c - k) * T + k * (T - P)
            + (tanhs l y - / (IZR (Zpos N) * IZR (Zpos C)) * rest)) by (unfold k; field; lra).
    eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat; [|exact IH].
    eapply Rle_trans; [|apply up_ok]. rewrite Q2R_qadd, Q2R_qmul, !Q2R_abs, Q2R_qsub, Q2R_qmul, one_over.
    fold k. eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_mult. apply Rplus_le_compat.
    + rewrite <- (Rmult_1_r (Rabs (Q2R c - k))) at 2.
      apply Rmult_le_compat_l; [apply Rabs_pos|]. apply half_tanh_bound.
    + apply Rmult_le_compat_l; [apply Rabs_pos|]. rewrite Rabs_minus_sym. apply He.
      exact (F (n, c) (or_introl eq_refl)).
Qed.

Lemma combination_ok g e z l s r :
  guessed g e -> combination g e z l = Some (s, r) -> combines l z s r.
Proof.
  intros He H y Hy. unfold combination in H. destruct (forallb _ l) eqn:F; [|discriminate].
  cbv zeta in H. set (N := common (interleaved (odd g))) in H. set (M := common (map fst l)) in H.
  revert H. generalize (Z.to_pos (2 ^ 160)) as C. intros C H.
  set (slope := rounded 64 _) in H. set (total := weighed _ _ _) in H. injection H as <- <-.
  assert (F' : forall b, In b l -> Rabs (Q2R (fst b) * y) <= Q2R (upto g)).
  { intros b I. rewrite forallb_forall in F. specialize (F b I). apply qle_ok in F.
    rewrite Q2R_qmul, Q2R_abs in F. eapply Rle_trans; [|exact F]. rewrite Rabs_mult.
    apply Rmult_le_compat_l; [apply Rabs_pos|exact Hy]. }
  pose proof (weighed_ok g e l y M N C He F') as A. fold total in A.
  set (NN := IZR (Zpos N)) in *. set (MM := IZR (Zpos M)) in *. set (CC := IZR (Zpos C)) in *.
  assert (N0 : 0 < NN) by (apply IZR_lt; reflexivity).
  assert (M0 : 0 < MM) by (apply IZR_lt; reflexivity).
  assert (C0 : 0 < CC) by (apply IZR_lt; reflexivity).
  assert (P0 : 0 < / (NN * CC)) by (apply Rinv_0_lt_compat; now apply Rmult_lt_0_compat).
  assert (I0 : 0 < / MM) by (now apply Rinv_0_lt_compat).
  set (rest := padd total _).
  assert (E : / (NN * CC) * peval total (y * / MM) - Q2R slope * y = / (NN * CC) * peval rest (y * / MM)).
  { unfold rest. rewrite peval_add. cbn [peval]. rewrite Q2R_0, Q2R_opp, !Q2R_qmul, !Q2R_integer.
    fold NN MM CC. field. lra. }
  assert (B : Rabs (/ (NN * CC) * peval rest (y * / MM))
              <= Q2R (qmul (1 # N * C) (long_size (qmul z (1 # M)) rest))).
  { rewrite Q2R_qmul, one_over, Pos2Z.inj_mul, mult_IZR, Rabs_mult, (Rabs_pos_eq (/ (NN * CC))) by lra.
    apply Rmult_le_compat_l; [fold NN CC; lra|].
    apply long_size_ok. rewrite Q2R_qmul, one_over, Rabs_mult, (Rabs_pos_eq (/ MM)) by lra.
    apply Rmult_le_compat_r; [fold MM; lra|exact Hy]. }
  eapply Rle_trans; [|apply up_ok]. rewrite Q2R_qadd.
  replace (tanhs l y - Q2R slope * y) with ((/ (NN * CC) * peval total (y * / MM) - Q2R slope * y)
    + (tanhs l y - / (NN * CC) * peval total (y * / MM))) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. rewrite E. now apply Rplus_le_compat.
Qed.

Definition remembered (memory : list known) : Prop :=
  forall k, In k memory -> combines (listed k) (within_z k) (slope_of k) (error_of k).

Lemma combine_or_recall_ok g e z l memory s r memory' :
  guessed g e ->
  remembered memory -> combine_or_recall g e z l memory = Some (s, r, memory') ->
  combines l z s r /\ remembered memory'.
Proof.
  intros He R H. unfold combine_or_recall in H. destruct (recall l z memory) as [b|] eqn:E.
  - injection H as -> <-. split; trivial. clear He.
    induction memory as [|k memory IH]; cbn [recall] in E; [discriminate|].
    destruct (Qle_bool z (within_z k)) eqn:Z.
    + destruct (same_list same_pair l (listed k)) eqn:S.
      * injection E as <- <-. apply same_pairs_ok in S. subst l. apply qle_ok in Z.
        intros y Hy. apply (R k (or_introl eq_refl)). lra.
      * apply IH; trivial. intros j I. apply R. now right.
    + apply IH; trivial. intros j I. apply R. now right.
  - destruct (combination g e z l) as [[s' r']|] eqn:K; [|discriminate]. injection H as -> -> <-.
    pose proof (combination_ok _ _ _ _ _ _ He K) as O. split; trivial.
    intros k [<-|I]; [exact O|now apply R].
Qed.

(** ** One group *)

Definition added (n : nat) (hs : list head) (z : stream) (i : nat) : vector := fun d =>
  fold_right (fun h s => attend_softly n h z i d + s) 0 hs.

Lemma lone_row_ok M d : lone_row M = Some d -> forall k, k <> d -> nth k M [] = [].
Proof.
  revert d; induction M as [|row M IH]; intros d H k N; [discriminate|].
  cbn [lone_row] in H. destruct row as [|e row].
  - destruct (lone_row M) as [c|]; [|discriminate]. injection H as <-.
    destruct k as [|k]; trivial. apply (IH c); trivial. lia.
  - destruct (forallb empty M) eqn:F; [|discriminate]. injection H as <-.
    destruct k as [|k]; [now elim N|]. cbn [nth]. rewrite forallb_forall in F.
    destruct (le_lt_dec (length M) k) as [L|L]; [now apply nth_overflow|].
    specialize (F _ (nth_In M [] L)). now destruct (nth k M []).
Qed.

Lemma regular_ok d first h :
  regular d first h = true ->
  bias h = [] /\ key h = key first /\ length (query h) = length (query first) /\
  lone_row (value h) = Some d.
Proof.
  unfold regular. destruct (bias h); cbn [empty]; [|discriminate].
  destruct (same_matrix _ _) eqn:K; [|discriminate]. apply same_matrix_ok in K.
  destruct (Nat.eqb_spec (length (query h)) (length (query first))); [|discriminate].
  destruct (lone_row (value h)) as [k|]; [|discriminate]. intros E. apply Nat.eqb_eq in E. now subst.
Qed.

Lemma attend_elsewhere n h z i d k : lone_row (value h) = Some d -> k <> d -> attend_softly n h z i k = 0.
Proof.
  intros L N. unfold attend_softly. rewrite (sum_ext _ (fun _ => 0)), sum_zero; trivial.
  intros j _. unfold times. rewrite (lone_row_ok _ _ L k N). cbn [row_times]. ring.
Qed.

Section Group.
  Variables (D : domain) (x : list R) (A : list shaken) (z : stream).
  Hypothesis Hx : inside D x.
  Hypothesis HA : all_close D x A z.
  Let n : nat := length A.

  Lemma rivals_above qs fs f p first ks j :
    (j < length ks)%nat -> (first + j)%nat <> f -> (first + j)%nat <> p ->
    Q2R (ahead qs (nth j ks []) fs) <= Q2R (rivals qs fs f p first ks).
  Proof.
    revert first j; induction ks as [|k ks IH]; intros first j Hj F P; cbn [length rivals] in *; [lia|].
    cbv zeta. destruct j as [|j].
    - rewrite Nat.add_0_r in *. apply Nat.eqb_neq in F. apply Nat.eqb_neq in P. rewrite F, P.
      apply qmax_left.
    - assert (R : Q2R (ahead qs (nth j ks []) fs) <= Q2R (rivals qs fs f p (S first) ks))
        by (apply IH; lia).
      cbn [nth]. destruct (Nat.eqb first f); trivial. destruct (Nat.eqb first p); trivial.
      eapply Rle_trans; [exact R|apply qmax_right].
  Qed.

  Lemma nth_ranges (K : matrix) j :
    (j < n)%nat -> nth j (ranges A K) [] = map (range (nth j A still)) K.
  Proof.
    intros H. unfold ranges. rewrite (nth_indep _ _ (map (range still) K)) by (now rewrite map_length).
    apply (map_nth (fun a => map (range a) K)).
  Qed.

  Lemma most_ok v q : In q v -> Rabs (Q2R q) <= Q2R (most v).
  Proof.
    induction v as [|c v IH]; intros I; [now elim I|]. cbn [most fold_right]. fold (most v).
    destruct I as [->|I].
    - rewrite <- Q2R_abs. apply qmax_left.
    - eapply Rle_trans; [now apply IH|apply qmax_right].
  Qed.

  (** One head, one token. *)
  Lemma leak_ok d first h s i f p e :
    bias h = [] -> key h = key first -> sight_of d first A h = Some s ->
    (i < n)%nat -> (f < n)%nat -> (p < n)%nat -> leak (ranges A (key first)) n i f p s = Some e ->
    Rabs (attend_softly n h z i d
          - mean (score h z i) (fun j => times (value h) (z j) d) f p) <= Q2R e.
  Proof.
    intros Hb Hk Hs Hi Hf Hp H. unfold sight_of in Hs. rewrite <- Hk in H.
    destruct (traverse _ A) as [v|] eqn:V; [|discriminate]. injection Hs as <-.
    unfold leak in H. cbv zeta in H. cbn [asking greatest] in H.
    set (r := rivals _ _ f p 0 _) in H. destruct (Qle_bool r 0) eqn:R; [|discriminate].
    injection H as <-. apply qle_ok in R. rewrite Q2R_0 in R.
    eapply Rle_trans; [apply (softmax_near (score h z i) (fun j => times (value h) (z j) d) n f p
      (Q2R (Qopp r)) (Q2R (up (most v)))); trivial|].
    - intros j Hj Nf Np. rewrite Q2R_opp, Ropp_involutive, (score_difference h z i j f Hb).
      eapply Rle_trans; [apply (ahead_ok D x Hx _ _ (nth i A still) (nth j A still) (nth f A still));
        now apply HA|].
      unfold r. rewrite !nth_ranges by trivial. rewrite <- (nth_ranges (key h) j Hj).
      apply (rivals_above _ _ f p 0); trivial. unfold ranges. now rewrite map_length.
    - intros j Hj. pose proof (traverse_nth _ _ _ still 0%Q j V Hj) as S.
      unfold times. rewrite (settled_ok D x _ _ _ _ (HA j Hj) S).
      eapply Rle_trans; [|apply up_ok]. apply most_ok, nth_In.
      rewrite (traverse_length _ _ _ V). exact Hj.
    - eapply Rle_trans; [|apply up_ok]. rewrite !Q2R_qmul, Q2R_integer, <- INR_IZR_INZ, plus_INR.
      assert (E : exp (- Q2R (Qopp r)) <= Q2R (decay (Qopp r))).
      { apply decay_ok; [rewrite Q2R_opp; lra|lra]. }
      assert (M0 : 0 <= Q2R (up (most v))).
      { eapply Rle_trans; [|apply up_ok]. pose proof (traverse_nth _ _ _ still 0%Q i V Hi) as S.
        pose proof (most_ok v (nth i v 0%Q)) as B. eapply Rle_trans; [apply Rabs_pos|apply B].
        apply nth_In. rewrite (traverse_length _ _ _ V). exact Hi. }
      pose proof (pos_INR n) as P.
      replace (2 * (INR n * (exp (- Q2R (Qopp r)) * Q2R (up (most v)))))
        with ((INR n + INR n) * exp (- Q2R (Qopp r)) * Q2R (up (most v))) by ring.
      apply Rmult_le_compat_r; trivial. apply Rmult_le_compat_l; [lra|exact E].
  Qed.

  (** A token and all heads of the group. *)
  Definition receives (hs : list head) (d i : nat) (k : look) : Prop :=
    match sharing k with
    | None => Rabs (added n hs z i d - Q2R (steady k)) <= Q2R (leaking k)
    | Some (p, e, l) =>
        exists y, Rabs (y - peval p (feature_of D x (core (nth i A still)))) <= Q2R e /\
          Rabs (added n hs z i d - (Q2R (steady k) + tanhs l y)) <= Q2R (leaking k)
    end.

  Lemma halves_ok d first h s f p :
    sight_of d first A h = Some s -> (f < n)%nat -> (p < n)%nat ->
    Q2R (half_sum f p s) = (times (value h) (z f) d + times (value h) (z p) d) / 2 /\
    Q2R (half_difference f p s) = (times (value h) (z f) d - times (value h) (z p) d) / 2 /\
    seen_by s = h /\
    beyond s = combined (Qopp (qmul (node h) (Qinv (node first)))) (query h) (query first).
  Proof.
    intros Hs Hf Hp. unfold sight_of in Hs.
    destruct (traverse _ A) as [v|] eqn:V; [|discriminate]. injection Hs as <-.
    unfold half_sum, half_difference. cbv zeta. cbn [worth seen_by beyond]. unfold times.
    rewrite (settled_ok D x _ _ _ _ (HA f Hf) (traverse_nth _ _ _ still 0%Q f V Hf)).
    rewrite (settled_ok D x _ _ _ _ (HA p Hp) (traverse_nth _ _ _ still 0%Q p V Hp)).
    destruct (same_number _ _) eqn:E.
    - apply same_number_ok in E. rewrite E, Q2R_opp, Q2R_0. repeat split; field.
    - autorewrite with q2r. repeat split; field.
  Qed.

  Lemma look_at_ok first hs ss d i f p k :
    (forall h, In h hs -> regular d first h = true) -> ~ Q2R (node first) = 0 -> bias first = [] ->
    traverse (sight_of d first A) hs = Some ss -> (i < n)%nat ->
    look_at first (ranges A (key first)) ss A i f p = Some k -> receives hs d i k.
  Proof.
    intros Hr Hn Hb Hs Hi H. unfold look_at in H. cbv zeta in H. fold n in H.
    destruct (Nat.ltb_spec f n) as [Hf|]; [|discriminate].
    destruct (Nat.ltb_spec p n) as [Hp|]; [|discriminate].
    destruct (traverse (leak (ranges A (key first)) n i f p) ss) as [ls|] eqn:L; [|discriminate].
    (* all heads, each by its mean *)
    assert (S : Rabs (added n hs z i d - fold_right (fun h s =>
        mean (score h z i) (fun j => times (value h) (z j) d) f p + s) 0 hs)
      <= Q2R (fold_right qadd 0%Q ls)).
    { clear H. revert ss ls Hs L; induction hs as [|h hs IH]; intros ss ls Hs L; cbn [traverse] in Hs.
      - injection Hs as <-. cbn [traverse] in L. injection L as <-. cbn [added fold_right].
        unfold added. cbn [fold_right]. rewrite Rminus_diag_eq by trivial. rewrite Rabs_R0, Q2R_0. lra.
      - destruct (sight_of d first A h) as [s|] eqn:E; [|discriminate].
        destruct (traverse (sight_of d first A) hs) as [ss'|] eqn:T; [|discriminate]. injection Hs as <-.
        cbn [traverse] in L. destruct (leak (ranges A (key first)) n i f p s) as [e|] eqn:K; [|discriminate].
        destruct (traverse (leak (ranges A (key first)) n i f p) ss') as [ls'|] eqn:L'; [|discriminate]. injection L as <-.
        destruct (regular_ok _ _ _ (Hr h (or_introl eq_refl))) as [B [Kh _]].
        pose proof (leak_ok d first h s i f p e B Kh E Hi Hf Hp K) as O.
        specialize (IH (fun h' I => Hr h' (or_intror I)) ss' ls' eq_refl L').
        unfold added in *. cbn [fold_right]. rewrite Q2R_qadd.
        replace (attend_softly n h z i d + _ - _) with
          ((attend_softly n h z i d - mean (score h z i) (fun j => times (value h) (z j) d) f p)
           + (fold_right (fun h s => attend_softly n h z i d + s) 0 hs
              - fold_right (fun h s => mean (score h z i) (fun j => times (value h) (z j) d) f p + s) 0 hs))
          by ring.
        eapply Rle_trans; [apply Rabs_triang|]. now apply Rplus_le_compat. }
    destruct (Nat.eqb_spec f p) as [E|E].
    - injection H as <-. unfold receives. cbn [sharing steady leaking]. subst p.
      replace (Q2R (fold_right (fun s e => qadd (half_sum f f s) e) 0%Q ss))
        with (fold_right (fun h s => mean (score h z i) (fun j => times (value h) (z j) d) f f + s) 0 hs);
        [exact S|].
      clear S L Hr. revert ss Hs; induction hs as [|h hs IH]; intros ss Hs; cbn [traverse] in Hs.
      + injection Hs as <-. cbn [fold_right]. now rewrite Q2R_0.
      + destruct (sight_of d first A h) as [s|] eqn:E; [|discriminate].
        destruct (traverse (sight_of d first A) hs) as [ss'|] eqn:T; [|discriminate]. injection Hs as <-.
        cbn [fold_right]. rewrite Q2R_qadd, <- (IH ss' eq_refl). f_equal.
        destruct (halves_ok d first h s f f E Hf Hf) as [-> _]. unfold mean. rewrite Nat.eqb_refl. field.
    - destruct (Nat.eqb_spec f i) as [->|]; [|discriminate].
      destruct (gap (query first) (key first) _ _) as [[g e]|] eqn:G; [|discriminate].
      destruct (forallb _ ss) eqn:F; [|discriminate]. injection H as <-.
      unfold receives. cbn [sharing steady leaking].
      set (w := score_gap (query first) (key first) (z i) (z i) (z p)).
      assert (In0 : ~ (node first == 0)%Q).
      { intros Z. apply Hn. apply Qeq_eqR in Z. now rewrite Z, Q2R_0. }
      exists (w * Q2R (Qinv (node first))). split.
      + pose proof (gap_ok D x Hx _ _ _ _ _ _ _ _ (HA i Hi) (HA p Hp) G) as B. fold w in B.
        rewrite peval_scale. autorewrite with q2r.
        replace (w * Q2R (/ node first) - Q2R (/ node first) * _)
          with (Q2R (/ node first) * (w - peval g (feature_of D x (core (nth i A still))))) by ring.
        rewrite Rabs_mult. apply Rmult_le_compat_l; trivial using Rabs_pos.
      + replace (Q2R (fold_right (fun s e => qadd (half_sum i p s) e) 0%Q ss)
          + tanhs (map (fun s => (node (seen_by s), half_difference i p s)) ss) (w * Q2R (/ node first)))
        with (fold_right (fun h s => mean (score h z i) (fun j => times (value h) (z j) d) i p + s) 0 hs);
        [exact S|].
        clear S L. revert ss Hs F; induction hs as [|h hs IH]; intros ss Hs F; cbn [traverse] in Hs.
        * injection Hs as <-. cbn [fold_right map tanhs]. rewrite Q2R_0. ring.
        * destruct (sight_of d first A h) as [s|] eqn:Es; [|discriminate].
          destruct (traverse (sight_of d first A) hs) as [ss'|] eqn:T; [|discriminate]. injection Hs as <-.
          cbn [forallb] in F. destruct (vanishing _) eqn:Va; [|discriminate].
          specialize (IH (fun h' I => Hr h' (or_intror I)) ss' eq_refl F).
          cbn [fold_right map tanhs]. rewrite Q2R_qadd, IH.
          destruct (halves_ok d first h s i p Es Hi Hp) as [-> [-> [Sb By]]]. rewrite Sb, By in *.
          destruct (regular_ok _ _ _ (Hr h (or_introl eq_refl))) as [B [K [Len _]]].
          (* its score gap is a multiple of that of the first head *)
          assert (M : score h z i i - score h z i p = Q2R (node h) * (w * Q2R (/ node first))).
          { rewrite (score_difference h z i i p B), K.
            destruct (gap (combined _ _ _) _ _ _) as [[g' e']|] eqn:G'; [|discriminate].
            cbn [vanishing] in Va. destruct (forallb zero g') eqn:Zg; [|discriminate].
            pose proof (gap_ok D x Hx _ _ _ _ _ _ _ _ (HA i Hi) (HA p Hp) G') as O.
            rewrite (peval_zeros _ _ Zg), (zero_ok _ Va), score_gap_combined in O by trivial.
            fold w in O. autorewrite with q2r in O. apply between in O. lra. }
          unfold mean at 1. apply Nat.eqb_neq in E. rewrite E, M. ring.
  Qed.

  Lemma looks_ok first hs ss d count i ls k :
    (forall h, In h hs -> regular d first h = true) -> ~ Q2R (node first) = 0 -> bias first = [] ->
    traverse (sight_of d first A) hs = Some ss -> (i + count <= n)%nat ->
    looks first (ranges A (key first)) ss A i count = inr ls -> (k < count)%nat ->
    receives hs d (i + k) (nth k ls (Look 0 0 None)).
  Proof.
    intros Hr Hn Hb Hs. revert i ls k; induction count as [|count IH]; intros i ls k Hc H Hk; [lia|].
    cbn [looks] in H. cbv zeta in H.
    destruct ss as [|s ss']; [discriminate|]. set (ss := s :: ss') in *.
    destruct (attended _ s i) as [[f p]|]; [|discriminate].
    destruct (look_at first (ranges A (key first)) ss A i f p) as [l|] eqn:L; [|discriminate].
    destruct (looks first _ ss A (S i) count) as [|r] eqn:R; [discriminate|]. injection H as <-.
    destruct k as [|k]; cbn [nth].
    - rewrite Nat.add_0_r. apply (look_at_ok first hs ss d i f p); trivial. lia.
    - replace (i + S k)%nat with (S i + k)%nat by lia. apply IH; trivial; lia.
  Qed.

  Lemma answers_length y s e l B ls r : answers y s e l B ls = Some r -> length r = length B.
  Proof.
    revert ls r; induction B as [|b B IH]; intros [|a ls] r H; cbn [answers] in H; try discriminate.
    - now injection H as <-.
    - destruct (answer y s e l b a); [|discriminate].
      destruct (answers y s e l B ls) as [r'|] eqn:R; [|discriminate]. injection H as <-.
      cbn [length]. now rewrite (IH _ _ R).
  Qed.

  Lemma answers_ok y s e l B ls r k :
    answers y s e l B ls = Some r -> (k < length B)%nat ->
    answer y s e l (nth k B still) (nth k ls (Look 0 0 None)) = Some (nth k r ([], 0%Q)).
  Proof.
    revert ls r k; induction B as [|b B IH]; intros ls r k H Hk; cbn [length] in *; [lia|].
    cbn [answers] in H. destruct ls as [|a ls]; [discriminate|].
    destruct (answer y s e l b a) as [v|] eqn:V; [|discriminate].
    destruct (answers y s e l B ls) as [r'|] eqn:R; [|discriminate]. injection H as <-.
    destruct k as [|k]; [exact V|]. apply (IH ls r' k R). lia.
  Qed.

  Lemma answer_ok hs d i y s e l k p err :
    (i < n)%nat -> combines l y s e -> receives hs d i k ->
    answer y s e l (nth i A still) k = Some (p, err) ->
    Rabs (added n hs z i d - peval p (feature_of D x (core (nth i A still)))) <= Q2R err.
  Proof.
    intros Hi C Hk H. unfold answer in H. unfold receives in Hk.
    set (a := nth i A still) in *. set (t := feature_of D x (core a)) in *.
    destruct (sharing k) as [[[q c] own]|] eqn:Sh.
    - destruct (same_list same_pair own l) eqn:S; [|discriminate]. apply same_pairs_ok in S. subst own.
      destruct (Qle_bool _ y) eqn:Y; [|discriminate]. injection H as <- <-. apply qle_ok in Y.
      destruct Hk as [w [W O]]. unfold reach_of_look in Y. rewrite Sh, Q2R_qadd in Y.
      pose proof (size_ok _ q t (t_small D x Hx a (z i) (HA i Hi))) as Q.
      assert (Wy : Rabs w <= Q2R y).
      { replace w with (peval q t + (w - peval q t)) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra. }
      specialize (C w Wy). eapply Rle_trans; [|apply up_ok]. unfold affine. rewrite peval_add, peval_scale.
      cbn [peval]. autorewrite with q2r.
      replace (added n hs z i d - (Q2R (steady k) + t * 0 + Q2R s * peval q t))
        with ((added n hs z i d - (Q2R (steady k) + tanhs l w)) + (tanhs l w - Q2R s * w)
              + Q2R s * (w - peval q t)) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat.
      + eapply Rle_trans; [apply Rabs_triang|]. now apply Rplus_le_compat.
      + rewrite Rabs_mult. apply Rmult_le_compat_l; trivial using Rabs_pos.
    - injection H as <- <-. cbn [peval]. replace (Q2R (steady k) + t * 0) with (Q2R (steady k)) by ring.
      exact Hk.
  Qed.

  Lemma group_ok g e memory hs d r memory' :
    guessed g e ->
    remembered memory -> group g e A memory hs = inr (d, r, memory') ->
    remembered memory' /\ length r = n /\
    (forall i k, (i < n)%nat -> k <> d -> added n hs z i k = 0) /\
    (forall i, (i < n)%nat ->
      Rabs (added n hs z i d - peval (fst (nth i r ([], 0%Q))) (feature_of D x (core (nth i A still))))
      <= Q2R (snd (nth i r ([], 0%Q)))).
  Proof.
    intros He R H. unfold group in H. destruct hs as [|first rest]; [discriminate|].
    set (hs := first :: rest) in *. destruct (lone_row (value first)) as [d'|] eqn:Ld; [|discriminate].
    destruct (forallb (regular d' first) hs) eqn:F; [|discriminate].
    destruct (zero (node first)) eqn:Zn; [discriminate|]. cbn [negb] in H.
    destruct (traverse (sight_of d' first A) hs) as [ss|] eqn:S; [|discriminate].
    destruct (looks first _ ss A 0 (length A)) as [|ls] eqn:L; [discriminate|].
    cbv zeta in H. set (y := largest A ls) in H. set (l := first_pairs ls) in H.
    destruct (combine_or_recall g e y l memory) as [[[s c] m]|] eqn:C; [|discriminate].
    destruct (answers y s c l A ls) as [r'|] eqn:An; [|discriminate]. injection H as -> -> ->.
    destruct (combine_or_recall_ok _ _ _ _ _ _ _ _ He R C) as [Cl Rm].
    assert (Hr : forall h, In h hs -> regular d first h = true) by (now apply forallb_forall).
    assert (Hn : ~ Q2R (node first) = 0).
    { intros Z. unfold zero in Zn. apply Z.eqb_neq in Zn. apply Zn.
      assert (E : (node first == 0)%Q) by (apply eqR_Qeq; now rewrite Q2R_0).
      unfold Qeq in E. cbn [Qnum Qden] in E. lia. }
    destruct (regular_ok _ _ _ (Hr first (or_introl eq_refl))) as [Hb _].
    split; [exact Rm|]. split; [|split].
    - exact (answers_length _ _ _ _ _ _ _ An).
    - intros i k Hi N. unfold added. clear S L C An. induction hs as [|h hs IH]; cbn [fold_right]; trivial.
      destruct (regular_ok _ _ _ (Hr h (or_introl eq_refl))) as [_ [_ [_ Lh]]].
      rewrite (attend_elsewhere n h z i d k Lh N), IH; [ring|..].
      + clear -F. cbn [forallb] in F. now destruct (regular d first h).
      + intros h' I. apply Hr. now right.
    - intros i Hi.
      pose proof (looks_ok first hs ss d (length A) 0 ls i Hr Hn Hb S ltac:(unfold n; lia) L Hi) as Rc.
      cbn [Nat.add] in Rc.
      pose proof (answers_ok _ _ _ _ _ _ _ i An Hi) as Ra.
      destruct (nth i r ([], 0%Q)) as [p err] eqn:E. cbn [fst snd].
      exact (answer_ok hs d i y s c l _ p err Hi Cl Rc Ra).
  Qed.
End Group.

(** ** Blocks *)

Lemma concat_grouped hs : concat (grouped hs) = hs.
Proof.
  induction hs as [|h hs IH]; cbn [grouped]; trivial.
  destruct (grouped hs) as [|[|h' g] gs]; cbn [concat app] in *; try (now rewrite IH).
  destruct (same_matrix _ _); cbn [concat app]; now rewrite <- IH.
Qed.

Lemma added_app n hs hs' z i d : added n (hs ++ hs') z i d = added n hs z i d + added n hs' z i d.
Proof. unfold added. induction hs as [|h hs IH]; cbn [app fold_right]; [ring|]. rewrite IH. ring. Qed.

Lemma attention_added n hs z i d : attention_softly n hs z i d = z i d + added n hs z i d.
Proof.
  unfold added. induction hs as [|h hs IH]; cbn [attention_softly fold_right]; [ring|]. rewrite IH. ring.
Qed.

Lemma absorb_nth d B r k :
  length r = length B -> (k < length B)%nat ->
  nth k (absorb d B r) still = absorb_one d (nth k B still) (nth k r ([], 0%Q)).
Proof.
  revert r k; induction B as [|b B IH]; intros [|a r] k H Hk; cbn [length] in *; try lia.
  destruct k as [|k]; [reflexivity|]. cbn [absorb nth]. apply IH; lia.
Qed.

Lemma absorb_length d B r : length r = length B -> length (absorb d B r) = length B.
Proof.
  revert r; induction B as [|b B IH]; intros [|a r] H; cbn [length absorb] in *; try discriminate; trivial.
  rewrite IH; lia.
Qed.

(** Two states of the same tokens. *)
Definition alike (A B : list shaken) : Prop :=
  length B = length A /\
  forall i, (i < length A)%nat -> direction (core (nth i B still)) = direction (core (nth i A still)).

Lemma groups_ok D x g e number h A z gs memory B v B' memory' :
  inside D x -> all_close D x A z ->
  guessed g e ->
  remembered memory -> alike A B -> all_close D x B v ->
  groups g e number h A gs memory B = inr (B', memory') ->
  remembered memory' /\ alike A B' /\
  all_close D x B' (fun i d => v i d + added (length A) (concat gs) z i d).
Proof.
  intros Hx HA He. revert h memory B v; induction gs as [|hs gs IH]; intros h memory B v R Al HB H;
    cbn [groups] in H.
  - injection H as <- <-. split; [|split]; trivial. intros i Hi. destruct (HB i Hi) as [Rc C].
    split; trivial. intros d. specialize (C d). unfold added. cbn [concat fold_right].
    now rewrite Rplus_0_r.
  - destruct (group g e A memory hs) as [[|k|]|[[d r] m]] eqn:G; try discriminate.
    destruct (group_ok D x A z Hx HA g e memory hs d r m He R G) as [Rm [Len [Else There]]].
    destruct Al as [LB AB].
    assert (LBr : length r = length B) by (now rewrite Len, LB).
    assert (L' : length (absorb d B r) = length B) by (now apply absorb_length).
    destruct (IH (h + length hs)%nat m (absorb d B r) (fun i k => v i k + added (length A) hs z i k) Rm) as [R' [Al' C']].
    + split; [now rewrite L'|]. intros i Hi. rewrite absorb_nth by (rewrite ?LB; trivial).
      cbn [absorb_one core direction]. now apply AB.
    + intros i Hi. rewrite L' in Hi. destruct (HB i Hi) as [Rc C]. rewrite absorb_nth by trivial.
      split; [exact Rc|]. intros k. cbn [absorb_one core entries slips slip_at].
      rewrite tval_tadd, place_eqb.
      change (feature_of D x (Tracked (direction (core (nth i B still))) (bound (core (nth i B still)))
        (tadd (place d) (fst (nth i r ([], 0%Q))) (entries (core (nth i B still))))))
        with (feature_of D x (core (nth i B still))).
      assert (T : feature_of D x (core (nth i B still)) = feature_of D x (core (nth i A still))).
      { unfold feature_of. rewrite AB; trivial. now rewrite <- LB. }
      specialize (C k). rewrite LB in Hi.
      destruct (Nat.eqb_spec d k) as [->|N].
      * rewrite Q2R_qadd. specialize (There i Hi). rewrite <- T in There.
        set (t := feature_of D x (core (nth i B still))) in *.
        replace (_ - _) with ((added (length A) hs z i k - peval (fst (nth i r ([], 0%Q))) t)
          + (v i k - tval (entries (core (nth i B still))) t (place k))) by ring.
        eapply Rle_trans; [apply Rabs_triang|]. now apply Rplus_le_compat.
      * rewrite (Else i k Hi) by auto. rewrite Rplus_0_r, Rplus_0_l. exact C.
    + exact H.
    + split; [|split]; trivial. intros i Hi. destruct (C' i Hi) as [Rc C]. split; trivial.
      intros k. specialize (C k). cbn [concat]. rewrite added_app.
      replace (v i k + (added (length A) hs z i k + added (length A) (concat gs) z i k))
        with (v i k + added (length A) hs z i k + added (length A) (concat gs) z i k) by ring.
      exact C.
Qed.

Lemma follow_softly_ok D x g e number bs memory A z B :
  inside D x ->
  guessed g e ->
  remembered memory -> all_close D x A z -> follow_softly g e number bs memory A = inr B ->
  length B = length A /\
  all_close D x B (fold_left (fun z hs i => attention_softly (length A) hs z i) bs z).
Proof.
  intros Hx He. revert number memory A z; induction bs as [|hs bs IH]; intros number memory A z R C H.
  - injection H as <-. auto.
  - cbn [follow_softly] in H. destruct (groups _ _ _ _ _ _ _ _) as [|[A' m]] eqn:G; [discriminate|].
    destruct (groups_ok D x g e number 1 A z (grouped hs) memory A z A' m Hx C He R) as [R' [[L' _] C']];
      trivial.
    { split; trivial. }
    assert (C'' : all_close D x A' (fun i => attention_softly (length A) hs z i)).
    { intros i Hi. destruct (C' i Hi) as [Rc K]. split; trivial. intros d. specialize (K d).
      rewrite concat_grouped in K. now rewrite attention_added. }
    destruct (IH (S number) m A' _ R' C'' H) as [L F]. rewrite L' in L, F. split; trivial.
Qed.

(** ** From the embedding to the outputs *)

Lemma calm_ok D x a v : inside D x -> tracks D x a v -> tracks D x (calm a) v.
Proof.
  intros Hx [R Z]. unfold calm. destruct (zero (bound a)) eqn:E; [|split; trivial].
  split; [exact R|]. intros d. rewrite (Z d). cbn [entries].
  change (feature_of D x (Tracked (direction a) (bound a) (map (fun e => (fst e, firstn 1 (snd e))) (entries a))))
    with (feature_of D x a).
  assert (T : feature_of D x a = 0).
  { pose proof (reach_sound _ _ _ _ Hx R) as B. fold (feature_of D x a) in B.
    rewrite (zero_ok _ E) in B. apply between in B. lra. }
  rewrite T. clear. induction (entries a) as [|[j p] l IH]; cbn [map tval fst snd]; trivial.
  rewrite IH. f_equal. destruct (Pos.eqb j (place d)); trivial. destruct p; cbn [firstn peval]; ring.
Qed.

Lemma outputs_close D x beta A z :
  all_close D x A z ->
  Rabs (sum (fun i => row_times (nth i beta []) (z i)) (length A)
        - ridge_sum (minus x (centre D)) (contributions beta (map core A)))
  <= Q2R (output_slip beta A).
Proof.
  revert beta z; induction A as [|a A IH]; intros beta z C;
    cbn [map contributions ridge_sum length sum output_slip].
  - rewrite Rminus_diag_eq by trivial. rewrite Rabs_R0, Q2R_0. lra.
  - pose proof (row_close D x (hd [] beta) a (z 0%nat) (C 0%nat ltac:(simpl; lia))) as B.
    specialize (IH (tl beta) (fun i => z (S i)) (fun i Hi => C (S i) ltac:(simpl; lia))).
    cbn [fst snd]. rewrite Q2R_qadd. unfold poly, feature_of in B.
    replace (nth 0 beta []) with (hd [] beta) by (now destruct beta).
    rewrite (sum_ext (fun k => row_times (nth (S k) beta []) (z (S k)))
      (fun k => row_times (nth k (tl beta) []) (z (S k))))
      by (intros k _; destruct beta; [now destruct k|reflexivity]).
    set (s := sum _ (length A)) in *. set (r := ridge_sum _ _) in *.
    replace (row_times (hd [] beta) (z 0%nat) + s - _) with
      ((row_times (hd [] beta) (z 0%nat)
        - peval (row_of (hd [] beta) (entries (core a))) (linear (direction (core a)) (minus x (centre D))))
       + (s - r)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. now apply Rplus_le_compat.
Qed.

Lemma compare_softly_ok D x eps A z k outputs targets :
  inside D x -> all_close D x A z ->
  compare_softly eps (centre D) A k outputs targets = SoftProved ->
  agree_within (Q2R eps) (map (fun r => read (length A) r z) outputs) (map (eval x) targets).
Proof.
  intros Hx C. revert k targets; induction outputs as [|[beta b] outputs IH];
    intros k [|e targets] H; cbn [compare_softly map] in *; try discriminate; [constructor|].
  destruct (equals _ _ _ _) eqn:E; [|discriminate].
  destruct (Qle_bool _ eps) eqn:Q; [|discriminate].
  constructor; [|exact (IH _ _ H)].
  apply (equals_ok _ _ _ _ x (inside_length D x Hx)) in E. apply qle_ok in Q.
  pose proof (outputs_close D x beta A z C) as O. unfold read. cbn [fst snd]. rewrite <- E.
  set (s := sum _ (length A)) in *. set (r := ridge_sum _ _) in *.
  replace (Q2R b + s - (Q2R b + r)) with (s - r) by ring. lra.
Qed.

(** ** The theorem *)

Lemma follow_softly_not_proved g e number bs memory A :
  follow_softly g e number bs memory A <> inl SoftProved.
Proof.
  revert number memory A; induction bs as [|hs bs IH]; intros number memory A H; [discriminate|].
  cbn [follow_softly] in H. destruct (groups _ _ _ _ _ _ _ _) as [v|[B m]] eqn:G; [|exact (IH _ _ _ H)].
  injection H as ->. revert G. generalize 1%nat, memory, A at 2. clear.
  induction (grouped hs) as [|g' gs IH]; intros h memory B G; cbn [groups] in G; [discriminate|].
  destruct (group _ _ _ _ _) as [[|k|]|[[d r] m]]; try discriminate. exact (IH _ _ _ G).
Qed.

Theorem soft_sound (T : soft_transformer) (D : domain) (g : guess) (eps : Q) (targets : list expr) :
  soft_check T D g eps targets = SoftProved ->
  forall x : list R, inside D x -> agree_within (real eps) (run_softmax T x) (map (eval x) targets).
Proof.
  unfold soft_check. destruct (distance g) as [e|] eqn:Dg; [|discriminate]. cbv zeta.
  set (A := start _ _ _ _ _). intros H x Hx. rewrite real_ok.
  destruct (first_failing _ 0 A) eqn:K; [discriminate|].
  pose proof (start_ok 16 (frame T) D x Hx K) as F. cbn [frame feature features constant] in F. fold A in F.
  set (S := map (fun a => Shaken (calm a) []) A) in H.
  assert (LS : length S = length A) by apply map_length.
  assert (C : all_close D x S (embed (frame T) x)).
  { intros i Hi. rewrite LS in Hi. unfold S.
    rewrite (nth_indep _ _ (Shaken (calm nothing) [])) by (now rewrite map_length).
    rewrite (map_nth (fun a => Shaken (calm a) [])).
    destruct (calm_ok D x _ _ Hx (F i Hi)) as [R Z]. split; [exact R|]. intros d. cbn [core slips slip_at].
    rewrite <- (Z d), Rminus_diag_eq by trivial. rewrite Rabs_R0, Q2R_0. lra. }
  assert (He : guessed g (up e)).
  { intros u Hu. eapply Rle_trans; [exact (distance_ok g e u Dg Hu)|apply up_ok]. }
  destruct (follow_softly g (up e) 1 (soft_blocks T) [] S) as [v|B] eqn:E.
  - exfalso. subst v. exact (follow_softly_not_proved _ _ _ _ _ _ E).
  - destruct (follow_softly_ok D x g (up e) 1 _ [] S _ B Hx He ltac:(intros k []) C E) as [L G].
    pose proof (compare_softly_ok D x eps B _ _ _ _ Hx G H) as O. unfold run_softmax. cbv zeta.
    assert (N : length B = length (soft_features T)) by (rewrite L, LS; apply start_length).
    rewrite N in O. rewrite LS in O. unfold A in O. rewrite start_length in O. exact O.
Qed.
