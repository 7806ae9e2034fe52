(** Polynomials in one variable, and how large they are on |t| <= r. *)

From Coq Require Import Reals QArith Qreals Qabs List Lra.
From Exactformer Require Import Rationals.
Import ListNotations.
Open Scope Q_scope.

(** ** Arithmetic. The lowest coefficient comes first. *)

Definition upoly := list Q.

Fixpoint padd (p q : upoly) : upoly :=
  match p, q with
  | [], _ => q
  | _, [] => p
  | a :: p, b :: q => qadd a b :: padd p q
  end.

Definition pscale (c : Q) (p : upoly) : upoly := map (qmul c) p.

(** A coefficient that is zero costs nothing. *)
Fixpoint pmul_by (q p : upoly) : upoly :=
  match p with
  | [] => []
  | a :: p =>
      let rest := 0 :: pmul_by q p in
      if zero a then rest else padd (pscale a q) rest
  end.

Definition pmul (p q : upoly) : upoly := match q with [] => [] | _ => pmul_by q p end.

Open Scope R_scope.

Fixpoint peval (p : upoly) (t : R) : R :=
  match p with [] => 0 | c :: p => Q2R c + t * peval p t end.

Lemma peval_add p q t : peval (padd p q) t = peval p t + peval q t.
Proof.
  revert q; induction p as [|a p IH]; intros [|b q]; cbn [padd peval]; try ring.
  rewrite IH. autorewrite with q2r. ring.
Qed.

Lemma peval_scale c p t : peval (pscale c p) t = Q2R c * peval p t.
Proof.
  unfold pscale. induction p as [|a p IH]; cbn [map peval]; [ring|].
  rewrite IH. autorewrite with q2r. ring.
Qed.

Lemma peval_mul p q t : peval (pmul p q) t = peval p t * peval q t.
Proof.
  assert (H : peval (pmul_by q p) t = peval p t * peval q t).
  { induction p as [|a p IH]; cbn [pmul_by peval]; [ring|].
    assert (E : peval (0%Q :: pmul_by q p) t = t * (peval p t * peval q t))
      by (cbn [peval]; rewrite IH; autorewrite with q2r; ring).
    cbv zeta. destruct (zero a) eqn:Z.
    - apply zero_ok in Z. rewrite E, Z. ring.
    - rewrite peval_add, peval_scale, E. ring. }
  unfold pmul. destruct q; [cbn [peval]; ring|exact H].
Qed.

(** ** Chebyshev's basis

    The coefficients c_0, c_1, ... of p(r u) in T_0(u), T_1(u), ... bound p on |t| <= r, since
    |T_k| <= 1. That follows from T_k^2 + T_(k+1)^2 - 2 u T_k T_(k+1) = 1 - u^2, without cosines. *)

Open Scope Q_scope.

(** The coefficients of r u times a series. *)
Definition shift (r : Q) (a : list Q) : list Q :=
  match a with
  | [] => []
  | x :: l => map (qmul (qmul (1 # 2) r)) (padd (0 :: a) (padd l [0; x]))
  end.

Fixpoint chebyshev (r : Q) (p : upoly) : list Q :=
  match p with [] => [] | c :: p => padd [c] (shift r (chebyshev r p)) end.

Definition absolute (l : list Q) : Q := fold_right (fun c e => qadd (Qabs c) e) 0 l.

Open Scope R_scope.

(** a_0 T + a_1 T' + ..., T and T' being two consecutive Chebyshev polynomials at u. *)
Fixpoint series (u : R) (a : list Q) (T T' : R) : R :=
  match a with [] => 0 | x :: a => Q2R x * T + series u a T' (2 * u * T' - T) end.

Lemma series_add u a b T T' : series u (padd a b) T T' = series u a T T' + series u b T T'.
Proof.
  revert b T T'; induction a as [|x a IH]; intros [|y b] T T'; cbn [padd series]; try ring.
  rewrite IH. autorewrite with q2r. ring.
Qed.

Lemma series_scale u q a T T' : series u (map (qmul q) a) T T' = Q2R q * series u a T T'.
Proof.
  revert T T'; induction a as [|x a IH]; intros T T'; cbn [map series]; [ring|].
  rewrite IH. autorewrite with q2r. ring.
Qed.

Lemma series_times u a T T' :
  2 * (u * series u a T' (2 * u * T' - T))
  = series u a T T' + series u a (2 * u * T' - T) (2 * u * (2 * u * T' - T) - T').
Proof.
  revert T T'; induction a as [|x a IH]; intros T T'; cbn [series]; [ring|].
  specialize (IH T' (2 * u * T' - T)).
  replace (2 * (u * _)) with (2 * u * Q2R x * T'
    + 2 * (u * series u a (2 * u * T' - T) (2 * u * (2 * u * T' - T) - T'))) by ring.
  rewrite IH. ring.
Qed.

Lemma series_shift u r a : series u (shift r a) 1 u = Q2R r * u * series u a 1 u.
Proof.
  destruct a as [|x a]; [simpl; ring|]. unfold shift.
  rewrite series_scale, !series_add.
  pose proof (series_times u (x :: a) u 1) as H.
  replace (2 * u * 1 - u) with u in H by ring.
  autorewrite with q2r. cbn [series] in *. rewrite Q2R_0.
  replace (2 * u * 1 - u) with u in * by ring.
  replace (Q2R r * u * (Q2R x * 1 + series u a u (2 * u * u - 1)))
    with (Q2R r * / 2 * (2 * (u * (Q2R x * 1 + series u a u (2 * u * u - 1))))) by field.
  rewrite H. field.
Qed.

Lemma chebyshev_ok u r p : series u (chebyshev r p) 1 u = peval p (Q2R r * u).
Proof.
  induction p as [|c p IH]; cbn [chebyshev peval]; [reflexivity|].
  rewrite series_add, series_shift, IH. cbn [series]. ring.
Qed.

Lemma series_bound u a T T' :
  u * u <= 1 -> T * T <= 1 -> T' * T' <= 1 -> T * T + T' * T' - 2 * u * T * T' = 1 - u * u ->
  Rabs (series u a T T') <= Q2R (absolute a).
Proof.
  intros Hu. revert T T'; induction a as [|x a IH]; intros T T' HT HT' HP;
    cbn [series absolute fold_right].
  - rewrite Rabs_R0, Q2R_0; lra.
  - autorewrite with q2r. eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat.
    + rewrite Rabs_mult. rewrite <- (Rmult_1_r (Rabs (Q2R x))) at 2.
      apply Rmult_le_compat_l; [apply Rabs_pos|].
      rewrite <- Rabs_R1. apply Rsqr_le_abs_0. unfold Rsqr. lra.
    + set (V := 2 * u * T' - T).
      assert (HV : T' * T' + V * V - 2 * u * T' * V = 1 - u * u) by (unfold V; lra).
      apply IH; trivial.
      destruct (Req_dec (u * u) 1) as [E|E].
      * assert (Z : (T' - u * T) * (T' - u * T) = 0).
        { replace ((T' - u * T) * (T' - u * T))
            with (T * T + T' * T' - 2 * u * T * T' - T * T * (1 - u * u)) by ring.
          rewrite HP, E. ring. }
        apply Rmult_integral in Z. assert (T' = u * T) by (destruct Z; lra).
        replace V with T; trivial. unfold V.
        replace T' with (u * T). replace (2 * u * (u * T) - T) with (2 * (u * u) * T - T) by ring.
        rewrite E. ring.
      * assert (P : 0 <= (1 - u * u) * (1 - V * V)).
        { replace ((1 - u * u) * (1 - V * V)) with ((T' - u * V) * (T' - u * V))
            by (replace ((T' - u * V) * (T' - u * V))
                  with ((T' * T' + V * V - 2 * u * T' * V) - V * V * (1 - u * u)) by ring;
                rewrite HV; ring).
          apply Rle_0_sqr. }
        destruct (Rle_lt_dec (V * V) 1) as [|C]; trivial. exfalso.
        assert (0 < (1 - u * u) * (V * V - 1)) by (apply Rmult_lt_0_compat; lra).
        lra.
Qed.

Lemma on_unit_interval r t : Rabs t <= r -> exists u, u * u <= 1 /\ t = r * u.
Proof.
  intros Ht. destruct (Req_dec r 0) as [Z|Z].
  - exists 0. rewrite Z in *. split; [lra|]. pose proof (Rabs_pos t).
    destruct (Req_dec t 0) as [|N]; [lra|]. apply Rabs_pos_lt in N. lra.
  - exists (t / r). split; [|field; trivial].
    assert (P : 0 < r) by (pose proof (Rabs_pos t); lra).
    assert (B : Rabs (t / r) <= Rabs 1).
    { rewrite Rabs_R1. unfold Rdiv. rewrite Rabs_mult, Rabs_inv, (Rabs_pos_eq r) by lra.
      apply Rmult_le_reg_r with r; trivial. rewrite Rmult_assoc, Rinv_l by trivial. lra. }
    apply Rsqr_le_abs_1 in B. unfold Rsqr in B. lra.
Qed.

(** ** Bounds *)

Definition middle (r : Q) (p : upoly) : Q := hd 0%Q (chebyshev r p).
Definition spread (r : Q) (p : upoly) : Q := absolute (tl (chebyshev r p)).

Lemma range_ok r p t :
  Rabs t <= Q2R r -> Rabs (peval p t - Q2R (middle r p)) <= Q2R (spread r p).
Proof.
  intros H. destruct (on_unit_interval _ _ H) as [u [Hu ->]].
  rewrite <- chebyshev_ok. unfold middle, spread.
  destruct (chebyshev r p) as [|c l]; cbn [hd tl series].
  - rewrite Q2R_0, Rminus_0_r, Rabs_R0. cbn [absolute fold_right]. rewrite Q2R_0; lra.
  - replace (Q2R c * 1 + series u l u (2 * u * u - 1) - Q2R c)
      with (series u l u (2 * u * u - 1)) by ring.
    pose proof (Rle_0_sqr u) as P. unfold Rsqr in P.
    apply series_bound; trivial; [|ring].
    assert (0 <= (u * u) * (1 - u * u)) by (apply Rmult_le_pos; lra).
    replace ((2 * u * u - 1) * (2 * u * u - 1)) with (1 - 4 * ((u * u) * (1 - u * u))) by ring.
    lra.
Qed.

Definition low (r : Q) (p : upoly) : Q := qsub (middle r p) (spread r p).
Definition high (r : Q) (p : upoly) : Q := qadd (middle r p) (spread r p).

Lemma low_ok r p t : Rabs t <= Q2R r -> Q2R (low r p) <= peval p t.
Proof.
  intros H. apply (range_ok r p t) in H. unfold low. autorewrite with q2r.
  unfold Rabs in H; destruct (Rcase_abs _) in H; lra.
Qed.

Lemma high_ok r p t : Rabs t <= Q2R r -> peval p t <= Q2R (high r p).
Proof.
  intros H. apply (range_ok r p t) in H. unfold high. autorewrite with q2r.
  unfold Rabs in H; destruct (Rcase_abs _) in H; lra.
Qed.

(** Sum of |c_k| r^k: as good as Chebyshev's for a single power, and quicker. *)
Fixpoint by_powers (r : Q) (p : upoly) : Q :=
  match p with [] => 0%Q | c :: p => qadd (Qabs c) (qmul r (by_powers r p)) end.

Fixpoint single_power (p : upoly) : bool :=
  match p with [] => true | c :: p => if zero c then single_power p else forallb zero p end.

Definition size (r : Q) (p : upoly) : Q :=
  if single_power p then by_powers r p else qadd (Qabs (middle r p)) (spread r p).

Lemma by_powers_ok r p t : Rabs t <= Q2R r -> Rabs (peval p t) <= Q2R (by_powers r p).
Proof.
  intros Ht. induction p as [|c p IH]; cbn [peval by_powers].
  - rewrite Rabs_R0, Q2R_0. lra.
  - autorewrite with q2r. eapply Rle_trans; [apply Rabs_triang|].
    apply Rplus_le_compat_l. rewrite Rabs_mult.
    apply Rmult_le_compat; trivial using Rabs_pos.
Qed.

Lemma size_ok r p t : Rabs t <= Q2R r -> Rabs (peval p t) <= Q2R (size r p).
Proof.
  intros H. unfold size. destruct (single_power p); [now apply by_powers_ok|].
  apply (range_ok r p t) in H. autorewrite with q2r.
  replace (peval p t) with (Q2R (middle r p) + (peval p t - Q2R (middle r p))) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

(** |p(t)| <= s |t| for a polynomial through zero. *)
Definition slope (r : Q) (p : upoly) : Q := size r (tl p).
Definition through_zero (p : upoly) : bool := zero (hd 0%Q p).

Lemma slope_ok r p t :
  through_zero p = true -> Rabs t <= Q2R r -> Rabs (peval p t) <= Q2R (slope r p) * Rabs t.
Proof.
  unfold through_zero, slope. intros Z H. destruct p as [|c p]; cbn [hd tl peval] in *.
  - rewrite Rabs_R0. apply Rmult_le_pos; [|apply Rabs_pos].
    apply Rle_trans with (Rabs (peval [] t)); [apply Rabs_pos|now apply size_ok].
  - apply zero_ok in Z. rewrite Z, Rplus_0_l, Rabs_mult, Rmult_comm.
    apply Rmult_le_compat_r; [apply Rabs_pos|now apply size_ok].
Qed.
