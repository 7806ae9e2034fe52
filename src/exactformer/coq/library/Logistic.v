(** The exponential among the rationals: two attended tokens share their attention as tanh, all others
    get next to nothing, and a polynomial is close to tanh if it nearly solves its differential
    equation. *)

From Coq Require Import ZArith Reals QArith Qreals Qabs Qround List Lra Lia.
From Exactformer Require Import Semantics Softmax Rationals OneVariable Tokens Identity.
Import ListNotations.
Open Scope R_scope.

Lemma between a c : Rabs a <= c -> - c <= a <= c.
Proof. unfold Rabs. destruct (Rcase_abs a); lra. Qed.

(** ** tanh (u / 2) *)

Definition half_tanh (u : R) : R := (exp u - 1) / (exp u + 1).

Lemma half_tanh_opp u : half_tanh (- u) = - half_tanh u.
Proof.
  unfold half_tanh. rewrite exp_Ropp. pose proof (exp_pos u). field. split; lra.
Qed.

Lemma half_tanh_bound u : Rabs (half_tanh u) <= 1.
Proof.
  unfold half_tanh. pose proof (exp_pos u). apply Rabs_le. split.
  - apply Rmult_le_reg_r with (exp u + 1); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
  - apply Rmult_le_reg_r with (exp u + 1); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
Qed.

(** P solves 2 P' = 1 - P^2 up to d, and tanh (u / 2) does so exactly. With a = exp (u / 2),
    b = exp (- u / 2), the difference times a + b is at most d (a - b): multiplied by exp of the
    integral of P / 2, what is missing grows. *)
Section Near.
  Variables (P P' A : R -> R) (U d : R).
  Hypothesis HP : forall u, 0 <= u <= U -> derivable_pt_lim P u (P' u).
  Hypothesis HA : forall u, 0 <= u <= U -> derivable_pt_lim A u (P u / 2).
  Hypothesis P0 : P 0 = 0.
  Hypothesis Hpos : forall u, 0 <= u <= U -> 0 <= P u.
  Hypothesis Hd : forall u, 0 <= u <= U -> Rabs (2 * P' u - (1 - P u * P u)) <= d.

  Let a (u : R) : R := exp (u / 2).
  Let b (u : R) : R := exp (- (u / 2)).

  Lemma half_lim u : derivable_pt_lim (fun u => u / 2) u (/ 2).
  Proof.
    replace (/ 2) with (1 * / 2 + u * 0) by field.
    apply (derivable_pt_lim_mult id (fun _ => / 2)); [apply derivable_pt_lim_id|apply derivable_pt_lim_const].
  Qed.

  Lemma a_lim u : derivable_pt_lim a u (a u / 2).
  Proof.
    unfold Rdiv. apply (derivable_pt_lim_comp (fun u => u / 2) exp); [apply half_lim|].
    apply derivable_pt_lim_exp.
  Qed.

  Lemma b_lim u : derivable_pt_lim b u (- (b u / 2)).
  Proof.
    replace (- (b u / 2)) with (b u * - / 2) by field.
    apply (derivable_pt_lim_comp (fun u => - (u / 2)) exp); [|apply derivable_pt_lim_exp].
    apply (derivable_pt_lim_opp (fun u => u / 2)), half_lim.
  Qed.

  (** s is 1 or -1. *)
  Definition missing (s u : R) : R := d * (a u - b u) - s * ((1 + P u) * b u - (1 - P u) * a u).
  Definition missing' (s u : R) : R :=
    d * (a u / 2 + b u / 2)
    - s * ((P' u * b u - (1 + P u) * (b u / 2)) - (- P' u * a u + (1 - P u) * (a u / 2))).

  Lemma missing_lim s u : 0 <= u <= U -> derivable_pt_lim (missing s) u (missing' s u).
  Proof.
    intros H. unfold missing, missing'.
    pose proof (a_lim u) as La. pose proof (b_lim u) as Lb. pose proof (HP u H) as Lp.
    assert (L1 : derivable_pt_lim (fun u => 1 + P u) u (P' u)).
    { replace (P' u) with (0 + P' u) by ring.
      apply (derivable_pt_lim_plus (fun _ => 1) P); trivial. apply derivable_pt_lim_const. }
    assert (L2 : derivable_pt_lim (fun u => 1 - P u) u (- P' u)).
    { replace (- P' u) with (0 - P' u) by ring.
      apply (derivable_pt_lim_minus (fun _ => 1) P); trivial. apply derivable_pt_lim_const. }
    pose proof (derivable_pt_lim_mult _ _ u _ _ L1 Lb) as M1.
    pose proof (derivable_pt_lim_mult _ _ u _ _ L2 La) as M2.
    pose proof (derivable_pt_lim_minus _ _ u _ _ M1 M2) as M.
    pose proof (derivable_pt_lim_scal _ s u _ M) as M3.
    pose proof (derivable_pt_lim_minus _ _ u _ _ La Lb) as N.
    pose proof (derivable_pt_lim_scal _ d u _ N) as N1.
    pose proof (derivable_pt_lim_minus _ _ u _ _ N1 M3) as K.
    unfold mult_real_fct, minus_fct, mult_fct in K.
    match type of K with derivable_pt_lim _ _ ?l => replace l with
      (d * (a u / 2 + b u / 2)
        - s * ((P' u * b u - (1 + P u) * (b u / 2)) - (- P' u * a u + (1 - P u) * (a u / 2)))) in K
        by field end.
    exact K.
  Qed.

  Lemma a_above_b u : 0 <= u -> b u <= a u.
  Proof.
    intros H. unfold a, b. destruct (Req_dec u 0) as [->|N].
    - replace (- (0 / 2)) with (0 / 2) by field. lra.
    - left. apply exp_increasing. lra.
  Qed.

  Lemma missing_pos s u : s = 1 \/ s = -1 -> 0 <= u <= U -> 0 <= missing s u.
  Proof.
    intros Hs H. destruct (Req_dec u 0) as [->|N].
    { unfold missing, a, b. rewrite P0. replace (- (0 / 2)) with (0 / 2) by field. lra. }
    assert (E : 0 <= missing s u * exp (A u)).
    { destruct (MVT_cor2 (fun u => missing s u * exp (A u))
        (fun u => missing' s u * exp (A u) + missing s u * (exp (A u) * (P u / 2))) 0 u) as [c [E C]].
      - lra.
      - intros c C. apply (derivable_pt_lim_mult (missing s) (fun u => exp (A u))).
        + apply missing_lim. lra.
        + apply (derivable_pt_lim_comp A exp); [apply HA; lra|apply derivable_pt_lim_exp].
      - assert (Z : missing s 0 = 0).
        { unfold missing, a, b. rewrite P0. replace (- (0 / 2)) with (0 / 2) by field. ring. }
        rewrite Z in E. replace (missing s u * exp (A u)) with
          ((missing' s c * exp (A c) + missing s c * (exp (A c) * (P c / 2))) * (u - 0)) by lra.
        apply Rmult_le_pos; [|lra].
        replace (missing' s c * exp (A c) + missing s c * (exp (A c) * (P c / 2)))
          with (exp (A c) * (missing' s c + missing s c * (P c / 2))) by ring.
        apply Rmult_le_pos; [left; apply exp_pos|].
        pose proof (Hd c ltac:(lra)) as D. pose proof (Hpos c ltac:(lra)) as Q.
        pose proof (a_above_b c ltac:(lra)) as AB.
        pose proof (exp_pos (c / 2)) as Pa. pose proof (exp_pos (- (c / 2))) as Pb. fold (a c) (b c) in *.
        set (r := 2 * P' c - (1 - P c * P c)) in *.
        replace (missing' s c + missing s c * (P c / 2))
          with ((d - s * r) * ((a c + b c) / 2) + P c * d * ((a c - b c) / 2))
          by (unfold missing, missing', r; field).
        assert (D0 : 0 <= d) by (pose proof (Rabs_pos r); lra).
        assert (0 <= d - s * r) by (unfold Rabs in D; destruct (Rcase_abs r) in D; destruct Hs; subst s; lra).
        apply Rplus_le_le_0_compat; apply Rmult_le_pos; try lra. now apply Rmult_le_pos. }
    destruct (Rle_lt_dec 0 (missing s u)) as [|L]; trivial. exfalso.
    pose proof (exp_pos (A u)) as X.
    assert (0 < - missing s u * exp (A u)) by (apply Rmult_lt_0_compat; lra). lra.
  Qed.

  Lemma tanh_near u : 0 <= u <= U -> Rabs (P u - half_tanh u) <= d.
  Proof.
    intros H. pose proof (missing_pos 1 u (or_introl eq_refl) H) as M.
    pose proof (missing_pos (-1) u (or_intror eq_refl) H) as M'. unfold missing in *.
    pose proof (exp_pos (u / 2)) as Pa. pose proof (exp_pos (- (u / 2))) as Pb.
    assert (D0 : 0 <= d) by (pose proof (Rabs_pos (2 * P' u - (1 - P u * P u))); pose proof (Hd u H); lra).
    assert (AB : a u * b u = 1).
    { unfold a, b. rewrite <- exp_plus. replace (u / 2 + - (u / 2)) with 0 by ring. apply exp_0. }
    assert (E : exp u = a u * a u) by (unfold a; rewrite <- exp_plus; f_equal; field).
    fold (a u) in Pa. fold (b u) in Pb.
    assert (T : half_tanh u = (a u - b u) / (a u + b u)).
    { unfold half_tanh. rewrite E.
      replace (a u * a u - 1) with (a u * (a u - b u)) by (rewrite Rmult_minus_distr_l, AB; ring).
      replace (a u * a u + 1) with (a u * (a u + b u)) by (rewrite Rmult_plus_distr_l, AB; ring).
      field. split; lra. }
    rewrite T.
    replace (P u - (a u - b u) / (a u + b u))
      with (((1 + P u) * b u - (1 - P u) * a u) / (a u + b u)) by (field; lra).
    set (w := (1 + P u) * b u - (1 - P u) * a u) in *.
    assert (B : Rabs w <= d * (a u + b u)).
    { assert (d * (a u - b u) <= d * (a u + b u)) by (apply Rmult_le_compat_l; lra).
      apply Rabs_le. lra. }
    unfold Rdiv. rewrite Rabs_mult, (Rabs_pos_eq (/ _)) by (left; apply Rinv_0_lt_compat; lra).
    apply Rmult_le_reg_r with (a u + b u); [lra|]. rewrite Rmult_assoc, Rinv_l by lra. lra.
  Qed.
End Near.

(** ** Polynomials close to it *)

Open Scope Q_scope.

(** The guess of a file: a polynomial with odd powers only, for |u| <= [upto]. *)
Record guess := Guess { upto : Q; odd : list Q }.

Fixpoint interleaved (l : list Q) : upoly := match l with [] => [] | c :: l => 0 :: c :: interleaved l end.

Fixpoint derivative (p : upoly) : upoly :=
  match p with [] => [] | c :: p => padd p (0 :: derivative p) end.

Definition residual (p : upoly) : upoly := padd (pscale 2 (derivative p)) (padd [-1] (pmul p p)).

(** The middle and the spread of a long polynomial on |t| <= r, in integers: p (r / 2 w) times a common
    denominator, for |w| <= 2. *)
Definition common (p : upoly) : positive :=
  Z.to_pos (fold_right (fun q d => Z.lcm (Zpos (Qden q)) d) 1%Z p).

Definition extent (r : Q) (p : upoly) : Q * Q :=
  let p := stretch (qmul (1 # 2) r) 1 p in
  let N := common p in
  let l := chebyshev 2 (pscale (Zpos N # 1) p) in
  (qmul (1 # N) (hd 0 l), qmul (1 # N) (absolute (tl l))).

Definition long_size (r : Q) (p : upoly) : Q := let e := extent r p in qadd (Qabs (fst e)) (snd e).

(** How far the guess is from tanh (u / 2), if it is shown to be positive on the right. *)
Definition distance (g : guess) : option Q :=
  let p := interleaved (odd g) in
  let e := extent (upto g) (tl p) in
  if Qle_bool (snd e) (fst e) then Some (long_size (upto g) (residual p)) else None.

Open Scope R_scope.

Lemma extent_ok r p t :
  Rabs t <= Q2R r -> Rabs (peval p t - Q2R (fst (extent r p))) <= Q2R (snd (extent r p)).
Proof.
  intros H. destruct (on_unit_interval _ _ H) as [u [Hu ->]]. unfold extent. cbv zeta.
  set (p' := stretch _ _ p). set (N := common p'). cbn [fst snd].
  assert (W : Rabs (2 * u) <= Q2R 2).
  { replace (Q2R 2) with (Rabs 2) by (rewrite Rabs_pos_eq by lra; unfold Q2R; simpl; lra).
    apply Rsqr_le_abs_0. unfold Rsqr. lra. }
  pose proof (range_ok 2 (pscale (Zpos N # 1) p') (2 * u) W) as B. unfold middle, spread in B.
  set (l := chebyshev 2 _) in *.
  rewrite peval_scale in B. unfold p' in B at 1. rewrite stretch_ok in B.
  autorewrite with q2r in *. rewrite Q2R_integer in B.
  assert (P : 0 < IZR (Zpos N)) by (apply IZR_lt; reflexivity).
  assert (I : Q2R (1 # N) = / IZR (Zpos N)) by (unfold Q2R; simpl; lra).
  rewrite I. replace (Q2R r * u) with (/ 2 * Q2R r * (2 * u)) by field.
  rewrite Rmult_1_l in B. set (v := peval p _) in *.
  replace (v - / IZR (Z.pos N) * Q2R (hd 0%Q l))
    with (/ IZR (Z.pos N) * (IZR (Z.pos N) * v - Q2R (hd 0%Q l))) by (field; lra).
  rewrite Rabs_mult, Rabs_pos_eq by (left; now apply Rinv_0_lt_compat).
  apply Rmult_le_compat_l; trivial. left; now apply Rinv_0_lt_compat.
Qed.

Lemma long_size_ok r p t : Rabs t <= Q2R r -> Rabs (peval p t) <= Q2R (long_size r p).
Proof.
  intros H. apply (extent_ok r p t) in H. unfold long_size. cbv zeta. autorewrite with q2r.
  replace (peval p t) with (Q2R (fst (extent r p)) + (peval p t - Q2R (fst (extent r p)))) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

Lemma derivative_ok p t : derivable_pt_lim (peval p) t (peval (derivative p) t).
Proof.
  induction p as [|c p IH]; cbn [peval derivative]; [apply derivable_pt_lim_const|].
  rewrite peval_add. cbn [peval]. rewrite Q2R_0.
  replace (peval p t + (0 + t * peval (derivative p) t))
    with (0 + (1 * peval p t + t * peval (derivative p) t)) by ring.
  apply (derivable_pt_lim_plus (fun _ => Q2R c) (fun t => t * peval p t)); [apply derivable_pt_lim_const|].
  apply (derivable_pt_lim_mult id (peval p)); [apply derivable_pt_lim_id|exact IH].
Qed.

(** Half the integral of t^k p. *)
Fixpoint half_integral (p : upoly) (k : nat) (t : R) : R :=
  match p with [] => 0 | c :: p => Q2R c / (2 * INR (S k)) * t ^ S k + half_integral p (S k) t end.

Lemma half_integral_ok p k t : derivable_pt_lim (half_integral p k) t (t ^ k * peval p t / 2).
Proof.
  revert k; induction p as [|c p IH]; intros k; cbn [half_integral peval].
  - replace (t ^ k * 0 / 2) with 0 by field. apply derivable_pt_lim_const.
  - replace (t ^ k * (Q2R c + t * peval p t) / 2)
      with (Q2R c / (2 * INR (S k)) * (INR (S k) * t ^ k) + t ^ S k * peval p t / 2)
      by (simpl pow; field; apply not_0_INR; discriminate).
    apply (derivable_pt_lim_plus (fun t => Q2R c / (2 * INR (S k)) * t ^ S k) (half_integral p (S k)));
      [|apply IH].
    apply (derivable_pt_lim_scal (fun t => t ^ S k)). apply (derivable_pt_lim_pow t (S k)).
Qed.

Lemma interleaved_odd l t : peval (interleaved l) (- t) = - peval (interleaved l) t.
Proof.
  induction l as [|c l IH]; cbn [interleaved peval]; [ring|]. rewrite IH, Q2R_0. ring.
Qed.

Lemma distance_ok g e u :
  distance g = Some e -> Rabs u <= Q2R (upto g) ->
  Rabs (peval (interleaved (odd g)) u - half_tanh u) <= Q2R e.
Proof.
  unfold distance. cbv zeta. set (p := interleaved (odd g)). set (U := upto g).
  destruct (Qle_bool _ _) eqn:L; [|discriminate]. intros H Hu. injection H as <-.
  apply qle_ok in L.
  assert (K : forall v, 0 <= v <= Q2R U -> Rabs (peval p v - half_tanh v) <= Q2R (long_size U (residual p))).
  { apply (tanh_near (peval p) (peval (derivative p)) (half_integral p 0)).
    - intros v _. apply derivative_ok.
    - intros v _. pose proof (half_integral_ok p 0 v) as I. simpl pow in I.
      now rewrite Rmult_1_l in I.
    - unfold p. destruct (odd g); cbn [interleaved peval]; rewrite ?Q2R_0; ring.
    - intros v V. assert (E : peval p v = v * peval (tl p) v).
      { unfold p. destruct (odd g); cbn [interleaved peval tl]; rewrite ?Q2R_0; ring. }
      rewrite E. apply Rmult_le_pos; [lra|].
      pose proof (extent_ok U (tl p) v ltac:(rewrite Rabs_pos_eq; lra)) as B.
      apply between in B. lra.
    - intros v V. pose proof (long_size_ok U (residual p) v ltac:(rewrite Rabs_pos_eq; lra)) as S.
      unfold residual in S at 1. rewrite peval_add, peval_scale, peval_add, peval_mul in S.
      cbn [peval] in S. rewrite Q2R_neg1 in S.
      replace (Q2R 2) with 2 in S by (unfold Q2R; simpl; lra).
      replace (2 * peval (derivative p) v - (1 - peval p v * peval p v))
        with (2 * peval (derivative p) v + (-1 + v * 0 + peval p v * peval p v)) by ring.
      exact S. }
  destruct (Rle_lt_dec 0 u) as [S|S].
  - apply K. rewrite Rabs_pos_eq in Hu; lra.
  - rewrite Rabs_left in Hu by trivial. specialize (K (- u) ltac:(lra)).
    unfold p in K at 1. rewrite interleaved_odd, half_tanh_opp in K. fold p in K.
    rewrite <- Rabs_Ropp. replace (- (peval p u - half_tanh u)) with (- peval p u - - half_tanh u) by ring.
    exact K.
Qed.

(** ** Attention of two tokens, and leakage to all others *)

Lemma sum_le f g n : (forall k, (k < n)%nat -> f k <= g k) -> sum f n <= sum g n.
Proof.
  revert f g; induction n as [|n IH]; intros f g H; cbn [sum]; [lra|].
  apply Rplus_le_compat; [apply H; lia|]. apply IH. intros k Hk. apply H. lia.
Qed.

Lemma sum_scale c f n : sum (fun k => c * f k) n = c * sum f n.
Proof. revert f; induction n as [|n IH]; intros f; cbn [sum]; [ring|]. rewrite IH. ring. Qed.

Lemma sum_constant c n : sum (fun _ => c) n = INR n * c.
Proof. induction n as [|n IH]; [simpl; ring|]. rewrite S_INR. cbn [sum]. rewrite IH. ring. Qed.

Lemma sum_abs f n c : (forall k, (k < n)%nat -> Rabs (f k) <= c) -> Rabs (sum f n) <= INR n * c.
Proof.
  revert f; induction n as [|n IH]; intros f H; cbn [sum]; [simpl; rewrite Rabs_R0; lra|].
  eapply Rle_trans; [apply Rabs_triang|]. rewrite S_INR.
  pose proof (H 0%nat ltac:(lia)). pose proof (IH (fun k => f (S k)) (fun k Hk => H (S k) ltac:(lia))).
  lra.
Qed.

Lemma sum_above f n i : (forall k, (k < n)%nat -> 0 <= f k) -> (i < n)%nat -> f i <= sum f n.
Proof.
  intros H Hi. apply Rle_trans with (sum (fun k => if Nat.eqb k i then f k else 0) n).
  - rewrite (sum_single _ n i Hi); [rewrite Nat.eqb_refl; lra|].
    intros j _ N. apply Nat.eqb_neq in N. now rewrite N.
  - apply sum_le. intros k Hk. destruct (Nat.eqb k i); [lra|now apply H].
Qed.

(** The mean of v_f and v_p, weighed by the exponentials of their scores; v_f if there is only one. *)
Definition mean (s v : nat -> R) (f p : nat) : R :=
  if Nat.eqb f p then v f else (v f + v p) / 2 + (v f - v p) / 2 * half_tanh (s f - s p).

Lemma mean_weighed s v f p :
  f <> p -> exp (s f) * (v f - mean s v f p) + exp (s p) * (v p - mean s v f p) = 0.
Proof.
  intros N. unfold mean. apply Nat.eqb_neq in N. rewrite N. unfold half_tanh.
  replace (s f - s p) with (s f + - s p) by ring. rewrite exp_plus, exp_Ropp.
  pose proof (exp_pos (s f)). pose proof (exp_pos (s p)). field. split; lra.
Qed.

Lemma mean_bound s v f p c : Rabs (v f) <= c -> Rabs (v p) <= c -> Rabs (mean s v f p) <= c.
Proof.
  intros F P. unfold mean. destruct (Nat.eqb f p); trivial.
  pose proof (half_tanh_bound (s f - s p)) as H. set (h := half_tanh _) in *.
  apply between in H. apply between in F. apply between in P.
  replace ((v f + v p) / 2 + (v f - v p) / 2 * h) with ((1 + h) / 2 * v f + (1 - h) / 2 * v p) by field.
  apply Rabs_le. split.
  - apply Rle_trans with ((1 + h) / 2 * - c + (1 - h) / 2 * - c); [lra|].
    apply Rplus_le_compat; apply Rmult_le_compat_l; lra.
  - apply Rle_trans with ((1 + h) / 2 * c + (1 - h) / 2 * c); [|lra].
    apply Rplus_le_compat; apply Rmult_le_compat_l; lra.
Qed.

Theorem softmax_near s v n f p L c :
  (f < n)%nat -> (p < n)%nat ->
  (forall j, (j < n)%nat -> j <> f -> j <> p -> s j - s f <= - L) ->
  (forall j, (j < n)%nat -> Rabs (v j) <= c) ->
  Rabs (sum (fun j => softmax s n j * v j) n - mean s v f p) <= 2 * (INR n * (exp (- L) * c)).
Proof.
  intros Hf Hp HL Hc. set (m := mean s v f p). set (W := sum (fun k => exp (s k)) n).
  assert (Wf : exp (s f) <= W)
    by (apply (sum_above (fun k => exp (s k))); trivial; intros; left; apply exp_pos).
  pose proof (exp_pos (s f)) as Ef. assert (W0 : 0 < W) by lra.
  assert (Hm : Rabs m <= c) by (apply mean_bound; now apply Hc).
  assert (c0 : 0 <= c) by (pose proof (Rabs_pos m); lra).
  set (g := fun j => exp (s j) * (v j - m)).
  assert (E : sum (fun j => softmax s n j * v j) n - m = / W * sum g n).
  { assert (G : sum g n = sum (fun j => exp (s j) * v j) n - m * W).
    { unfold g, W. rewrite <- sum_scale. replace (sum (fun j => exp (s j) * v j) n - _)
        with (sum (fun j => exp (s j) * v j) n + -1 * sum (fun k => m * exp (s k)) n) by ring.
      rewrite <- sum_scale, <- sum_plus. apply sum_ext. intros; ring. }
    rewrite G. unfold softmax. fold W.
    rewrite (sum_ext _ (fun j => / W * (exp (s j) * v j))) by (intros; unfold Rdiv; ring).
    rewrite sum_scale. field. lra. }
  rewrite E.
  set (rest := fun j => if Nat.eqb j f then 0 else if Nat.eqb j p then 0 else g j).
  assert (R : sum g n = sum rest n).
  { destruct (Nat.eq_dec f p) as [Q|Q].
    - apply sum_ext. intros k _. unfold rest. destruct (Nat.eqb_spec k f) as [->|]; trivial.
      + unfold g, m, mean. rewrite Q, Nat.eqb_refl. ring.
      + rewrite <- Q. apply Nat.eqb_neq in n0. now rewrite n0.
    - set (one := fun i j => if Nat.eqb j i then g j else 0).
      rewrite (sum_ext g (fun j => rest j + (one f j + one p j))).
      + rewrite !sum_plus, (sum_single (one f) n f Hf), (sum_single (one p) n p Hp).
        * unfold one. rewrite !Nat.eqb_refl. unfold g. unfold m. rewrite mean_weighed by trivial. ring.
        * intros j _ N. unfold one. apply Nat.eqb_neq in N. now rewrite N.
        * intros j _ N. unfold one. apply Nat.eqb_neq in N. now rewrite N.
      + intros k _. unfold rest, one. destruct (Nat.eqb_spec k f) as [->|].
        * apply Nat.eqb_neq in Q. rewrite Q. ring.
        * destruct (Nat.eqb k p); ring. }
  rewrite R, Rabs_mult, (Rabs_pos_eq (/ W)) by (left; now apply Rinv_0_lt_compat).
  assert (B : Rabs (sum rest n) <= INR n * (exp (s f) * exp (- L) * (2 * c))).
  { apply sum_abs. intros k Hk. unfold rest.
    pose proof (exp_pos (- L)) as X.
    assert (0 <= exp (s f) * exp (- L) * (2 * c)) by (repeat apply Rmult_le_pos; lra).
    destruct (Nat.eqb_spec k f); [rewrite Rabs_R0; lra|].
    destruct (Nat.eqb_spec k p); [rewrite Rabs_R0; lra|].
    unfold g. rewrite Rabs_mult, (Rabs_pos_eq (exp (s k))) by (left; apply exp_pos).
    apply Rmult_le_compat; [left; apply exp_pos|apply Rabs_pos| |].
    - rewrite <- exp_plus. specialize (HL k Hk n0 n1).
      destruct (Req_dec (s k) (s f + - L)) as [->|]; [lra|]. left. apply exp_increasing. lra.
    - eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp. specialize (Hc k Hk). lra. }
  apply Rle_trans with (/ W * (INR n * (exp (s f) * exp (- L) * (2 * c)))).
  - apply Rmult_le_compat_l; trivial. left; now apply Rinv_0_lt_compat.
  - replace (/ W * (INR n * (exp (s f) * exp (- L) * (2 * c))))
      with ((exp (s f) * / W) * (2 * (INR n * (exp (- L) * c)))) by ring.
    rewrite <- (Rmult_1_l (2 * (INR n * (exp (- L) * c)))) at 2.
    apply Rmult_le_compat_r.
    + pose proof (exp_pos (- L)). pose proof (pos_INR n). repeat apply Rmult_le_pos; lra.
    + apply Rmult_le_reg_r with W; trivial. rewrite Rmult_assoc, Rinv_l; lra.
Qed.

(** ** exp (- L), from above *)

Lemma exp_5_above : 128 <= exp 5.
Proof.
  assert (E : exp 5 = exp (/ 32) ^ 160).
  { assert (H : forall n, exp (/ 32) ^ n = exp (INR n * / 32)).
    { induction n as [|n IH]; [simpl; now rewrite Rmult_0_l, exp_0|].
      rewrite S_INR. cbn [pow]. rewrite IH, <- exp_plus. f_equal. ring. }
    rewrite H, INR_IZR_INZ. change (Z.of_nat 160) with 160%Z. f_equal. field. }
  rewrite E. apply Rle_trans with ((33 / 32) ^ 160).
  - unfold Rdiv. rewrite Rpow_mult_distr, pow_inv.
    apply Rmult_le_reg_r with (32 ^ 160); [apply pow_lt; lra|].
    rewrite Rmult_assoc, Rinv_l, Rmult_1_r by (apply pow_nonzero; lra).
    rewrite !pow_IZR, <- mult_IZR. apply IZR_le. vm_compute. discriminate.
  - apply pow_incr. split; [lra|]. left. replace (33 / 32) with (1 + / 32) by field.
    apply exp_ineq1. lra.
Qed.

Open Scope Q_scope.

(** At least q, with some forty digits. *)
Definition up (q : Q) : Q :=
  if zero q then 0
  else
    let k := Z.max 0 (40 - (Z.log2 (Z.abs (Qnum q)) - Z.log2 (Zpos (Qden q)))) in
    Qred (Qmake (- (- (Qnum q * 2 ^ k) / Zpos (Qden q))) (Z.to_pos (2 ^ k))).

(** e^-L <= 2^-7k for 5 k <= L, since e^5 >= 2^7; the k is not larger than need be. *)
Definition decay (L : Q) : Q :=
  let k := Z.to_pos (Z.min 200 (Qfloor L) / 5) in if Qle_bool 5 L then 1 # 128 ^ k else 1.

Open Scope R_scope.

Lemma up_ok q : Q2R q <= Q2R (up q).
Proof.
  unfold up. destruct (zero q) eqn:Z; [rewrite (zero_ok _ Z), Q2R_0; lra|]. cbv zeta.
  set (k := Z.max 0 _). rewrite Q2R_qred. apply Qle_Rle. unfold Qle. cbn [Qnum Qden].
  assert (P : (0 < 2 ^ k)%Z) by (apply Z.pow_pos_nonneg; lia). rewrite Z2Pos.id by trivial.
  pose proof (Z.mul_div_le (- (Qnum q * 2 ^ k)) (Zpos (Qden q)) eq_refl). lia.
Qed.

Lemma decay_ok L l : 0 <= Q2R L -> Q2R L <= l -> exp (- l) <= Q2R (decay L).
Proof.
  intros H0 H. unfold decay. cbv zeta. destruct (Qle_bool 5 L) eqn:O.
  2:{ rewrite Q2R_1, <- exp_0. destruct (Req_dec l 0) as [->|]; [rewrite Ropp_0; lra|].
      left. apply exp_increasing. lra. }
  apply Qle_bool_iff in O. set (k := (Z.min 200 (Qfloor L) / 5)%Z).
  assert (F : (5 <= Qfloor L)%Z).
  { change 5%Z with (Qfloor 5). now apply Qfloor_resp_le. }
  assert (K : (0 < k)%Z) by (apply Z.div_str_pos; lia).
  assert (K' : (5 * k <= Qfloor L)%Z).
  { unfold k. pose proof (Z.mul_div_le (Z.min 200 (Qfloor L)) 5 eq_refl). lia. }
  assert (B : 5 * IZR k <= l).
  { apply Rle_trans with (Q2R L); trivial. apply Rle_trans with (IZR (Qfloor L)).
    - rewrite <- mult_IZR. now apply IZR_le.
    - rewrite <- Q2R_integer. apply Qle_Rle. apply (Qfloor_le L). }
  set (n := Z.to_pos k).
  assert (E : Q2R (1 # 128 ^ n) = / 128 ^ Pos.to_nat n).
  { unfold Q2R. cbn [Qnum Qden]. rewrite pow_IZR, positive_nat_Z, Pos2Z.inj_pow. lra. }
  rewrite E. apply Rle_trans with (exp (- (5 * INR (Pos.to_nat n)))).
  - rewrite INR_IZR_INZ, positive_nat_Z. unfold n. rewrite Z2Pos.id by trivial.
    destruct (Req_dec (5 * IZR k) l) as [->|]; [lra|]. left. apply exp_increasing. lra.
  - rewrite exp_Ropp. apply Rinv_le_contravar; [apply pow_lt; lra|].
    clear. induction (Pos.to_nat n) as [|m IH].
    + simpl. rewrite Rmult_0_r, exp_0. lra.
    + rewrite S_INR, Rmult_plus_distr_l, exp_plus, Rmult_1_r, Rmult_comm. cbn [pow].
      apply Rmult_le_compat; trivial using exp_5_above; [lra|apply pow_le; lra].
Qed.
