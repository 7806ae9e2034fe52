(** The error of operations and of sums in floating-point arithmetic. *)

From Coq Require Import Reals QArith Qreals Qabs List Permutation Bool Lra Lia.
From Flocq Require Import Core Relative.
From Exactformer Require Import Rationals Logistic.
From Exactformer.rounding Require Import Floats.
Import ListNotations.
Open Scope Q_scope.

(** ** What the checker computes *)

Definition power2 (e : Z) : Q :=
  if Z.leb 0 e then (2 ^ e # 1) else (1 # Z.to_pos (2 ^ (- e))).

Record unit := Unit { relative : Q; absolute_ : Q }.
(** [low] is the exponent of an underflow: that of the format, or a larger one that makes numbers short. *)
Definition unit_of (f : format) (low : Z) : unit := Unit (power2 (- digits f)) (power2 low).

(** A float as it is, with all its digits. *)
Definition is_dyadic (f : format) (q : Q) : bool :=
  let k := Z.log2 (Zpos (Qden q)) in
  Z.eqb (Zpos (Qden q)) (2 ^ k) andalso Z.ltb (Z.abs (Qnum q)) (2 ^ digits f) andalso
  Z.leb (lowest f) (- k) andalso Z.leb 0 k.

Definition weight_error (f : format) (low : Z) (q : Q) : Q :=
  if is_dyadic f q then 0
  else let u := unit_of f low in up (qadd (qmul (relative u) (Qabs q)) (absolute_ u)).

(** (1 + u)^k - 1 *)
Fixpoint growth (u : Q) (k : nat) : Q :=
  match k with O => 0 | S k => let g := growth u k in up (qadd g (qadd u (qmul u g))) end.

(** The error of a rounding of what is w up to e, |w| <= s. *)
Definition after (u : unit) (s e : Q) : Q := up (qadd e (qadd (qmul (relative u) (qadd s e)) (absolute_ u))).

(** The error of a product of s up to e and T up to E. *)
Definition times_error (s e T E : Q) : Q := qadd (qmul s E) (qmul e (qadd T E)).

(** The error of a sum with this magnitude. *)
Definition sum_error (u : unit) (k n : nat) (magnitude : Q) : Q :=
  let g := growth (relative u) k in
  up (qadd (qmul g magnitude)
        (qmul (qmul (Z.of_nat (n + n) # 1) (absolute_ u)) (qadd 1 g))).

(** ** Rounding *)

Open Scope R_scope.

Ltac not_negative := repeat first [lra | apply Rplus_le_le_0_compat | apply Rmult_le_pos].

Lemma power2_ok e : Q2R (power2 e) = bpow radix2 e.
Proof.
  unfold power2. destruct (Z.leb_spec 0 e) as [H|H].
  - rewrite Q2R_integer. now apply (IZR_Zpower radix2).
  - replace e with (- - e)%Z at 2 by lia. rewrite bpow_opp, <- (IZR_Zpower radix2) by lia.
    unfold Q2R. cbn [Qnum Qden]. rewrite Z2Pos.id by (apply Z.pow_pos_nonneg; lia).
    change (radix_val radix2) with 2%Z. lra.
Qed.

Section Format.
  Variable f : format.
  Variable low : Z.
  Hypothesis Hf : (0 < digits f)%Z.
  Hypothesis Hlow : (lowest f - 1 <= low)%Z.
  Let u : R := Q2R (relative (unit_of f low)).
  Let eta : R := Q2R (absolute_ (unit_of f low)).

  Lemma u_pos : 0 <= u.
  Proof. unfold u. cbn [unit_of relative]. rewrite power2_ok. apply bpow_ge_0. Qed.

  Lemma eta_pos : 0 <= eta.
  Proof. unfold eta. cbn [unit_of absolute_]. rewrite power2_ok. apply bpow_ge_0. Qed.

  Lemma rnd_ok a : Rabs (rnd f a - a) <= u * Rabs a + eta.
  Proof.
    destruct (error_N_FLT radix2 (lowest f) (digits f) Hf (fun z => negb (Z.even z)) a)
      as (eps & e & He & Hn & _ & E).
    assert (U : u = / 2 * bpow radix2 (- digits f + 1)).
    { unfold u. cbn [unit_of relative]. rewrite power2_ok, bpow_plus. change (bpow radix2 1) with 2. field. }
    assert (N : / 2 * bpow radix2 (lowest f) <= eta).
    { unfold eta. cbn [unit_of absolute_]. rewrite power2_ok. eapply Rle_trans; [|apply bpow_le, Hlow].
      unfold Z.sub. rewrite bpow_plus. change (bpow radix2 (- (1))) with (/ 2). lra. }
    rewrite <- U in He. apply (fun H => Rle_trans _ _ _ H N) in Hn.
    unfold rnd, grid. rewrite E. replace (a * (1 + eps) + e - a) with (eps * a + e) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat; trivial.
    rewrite Rabs_mult. apply Rmult_le_compat_r; trivial using Rabs_pos.
  Qed.

  Lemma after_ok v w s e :
    Rabs w <= Q2R s -> Rabs (v - w) <= Q2R e -> Rabs (rnd f v - w) <= Q2R (after (unit_of f low) s e).
  Proof.
    intros Hw Hv. unfold after. eapply Rle_trans; [|apply up_ok]. autorewrite with q2r. fold u eta.
    replace (rnd f v - w) with ((v - w) + (rnd f v - v)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat; trivial.
    eapply Rle_trans; [apply rnd_ok|]. apply Rplus_le_compat_r, Rmult_le_compat_l; [apply u_pos|].
    replace v with (w + (v - w)) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra.
  Qed.

  Lemma is_dyadic_ok q : is_dyadic f q = true -> rnd f (Q2R q) = Q2R q.
  Proof.
    unfold is_dyadic. cbv zeta. set (k := Z.log2 (Zpos (Qden q))).
    destruct (Z.eqb_spec (Zpos (Qden q)) (2 ^ k)) as [D|]; [|discriminate].
    destruct (Z.ltb_spec (Z.abs (Qnum q)) (2 ^ digits f)) as [N|]; [|discriminate].
    destruct (Z.leb_spec (lowest f) (- k)) as [L|]; [|discriminate]. intros K. apply Z.leb_le in K.
    apply round_generic; [apply valid_rnd_N|].
    apply generic_format_FLT. exists (Defs.Float radix2 (Qnum q) (- k)); cbn [Fnum Fexp].
    - unfold F2R. cbn [Fnum Fexp]. unfold Q2R. f_equal. rewrite D, bpow_opp.
      f_equal. now apply (IZR_Zpower radix2).
    - exact N.
    - exact L.
  Qed.

  Lemma weight_error_ok q : Rabs (rnd f (Q2R q) - Q2R q) <= Q2R (weight_error f low q).
  Proof.
    unfold weight_error. destruct (is_dyadic f q) eqn:E.
    - rewrite (is_dyadic_ok q E), Rminus_diag_eq, Rabs_R0, Q2R_0 by trivial. lra.
    - cbv zeta. eapply Rle_trans; [|apply up_ok]. autorewrite with q2r. apply rnd_ok.
  Qed.

  Lemma times_error_ok v w s e t' t T E :
    Rabs w <= Q2R s -> Rabs (v - w) <= Q2R e -> Rabs t <= Q2R T -> Rabs (t' - t) <= Q2R E ->
    Rabs (v * t' - w * t) <= Q2R (times_error s e T E).
  Proof.
    intros Hw Hv Ht Ht'. unfold times_error. autorewrite with q2r.
    replace (v * t' - w * t) with (w * (t' - t) + (v - w) * (t + (t' - t))) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_mult.
    apply Rplus_le_compat; apply Rmult_le_compat; trivial using Rabs_pos.
    eapply Rle_trans; [apply Rabs_triang|]. lra.
  Qed.

  (** ** Sums *)

  Definition worth (l : leaf) : R := match l with Term a => a | Product a b => a * b end.
  Definition total (l : list leaf) : R := fold_right (fun a s => worth a + s) 0 l.
  Definition magnitude (l : list leaf) : R := fold_right (fun a s => Rabs (worth a) + s) 0 l.

  Lemma total_app l l' : total (l ++ l') = total l + total l'.
  Proof. unfold total. induction l as [|a l IH]; cbn [app fold_right]; [ring|]. rewrite IH. ring. Qed.

  Lemma magnitude_app l l' : magnitude (l ++ l') = magnitude l + magnitude l'.
  Proof. unfold magnitude. induction l as [|a l IH]; cbn [app fold_right]; [ring|]. rewrite IH. ring. Qed.

  Lemma total_le l : Rabs (total l) <= magnitude l.
  Proof.
    unfold total, magnitude. induction l as [|a l IH]; cbn [fold_right]; [rewrite Rabs_R0; lra|].
    eapply Rle_trans; [apply Rabs_triang|]. lra.
  Qed.

  Lemma magnitude_pos l : 0 <= magnitude l.
  Proof. eapply Rle_trans; [apply Rabs_pos|apply total_le]. Qed.

  Lemma order_ok l l' :
    Permutation l l' -> total l = total l' /\ magnitude l = magnitude l' /\ length l = length l'.
  Proof.
    intros P. split; [|split; [|now apply Permutation_length]].
    - unfold total. induction P; cbn [fold_right]; lra.
    - unfold magnitude. induction P; cbn [fold_right]; lra.
  Qed.

  Definition bound_of (k : nat) (l : list leaf) : R :=
    ((1 + u) ^ k - 1) * magnitude l + (2 * INR (length l) - 1) * (eta * (1 + u) ^ k).

  Lemma grown k : 1 <= (1 + u) ^ k.
  Proof. pose proof u_pos. induction k as [|k IH]; simpl; [lra|]. nra. Qed.

  Lemma step_ok a b k A n :
    0 <= A -> 1 <= n -> Rabs a <= A ->
    Rabs (b - a) <= ((1 + u) ^ k - 1) * A + (2 * n - 2) * (eta * (1 + u) ^ k) ->
    Rabs (rnd f b - a) <= ((1 + u) ^ S k - 1) * A + (2 * n - 1) * (eta * (1 + u) ^ S k).
  Proof.
    intros HA Hn Ha Hb. pose proof u_pos as U. pose proof eta_pos as N. pose proof (grown k) as G.
    set (g := (1 + u) ^ k) in *. set (e := (g - 1) * A + (2 * n - 2) * (eta * g)) in *.
    assert (B : Rabs b <= A + e).
    { replace b with (a + (b - a)) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra. }
    replace (rnd f b - a) with ((b - a) + (rnd f b - b)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. pose proof (rnd_ok b) as R.
    assert (M : u * Rabs b <= u * (A + e)) by (apply Rmult_le_compat_l; trivial).
    assert (O : eta * 1 <= eta * (g * (1 + u))) by (apply Rmult_le_compat_l; nra).
    cbn [pow]. fold g.
    replace (((1 + u) * g - 1) * A + (2 * n - 1) * (eta * ((1 + u) * g)))
      with (e + u * (A + e) + eta * (g * (1 + u))) by (unfold e; ring).
    lra.
  Qed.

  Lemma summed_ok k l v m :
    summed f k l v m ->
    1 <= INR (length l) /\ Rabs (v - total l) <= bound_of k l /\ m <= magnitude l + bound_of k l.
  Proof.
    pose proof u_pos as U. pose proof eta_pos as N.
    assert (Large : forall v l k, Rabs (v - total l) <= bound_of k l -> Rabs v <= magnitude l + bound_of k l).
    { intros w l' k' B. replace w with (total l' + (w - total l')) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. pose proof (total_le l'). lra. }
    assert (More : forall l k l', 1 <= INR (length l) -> magnitude l <= magnitude l' ->
      INR (length l) <= INR (length l') -> magnitude l + bound_of k l <= magnitude l' + bound_of (S k) l').
    { intros l1 k1 l2 H1 H2 H3. unfold bound_of. pose proof (grown k1) as G. cbn [pow].
      set (g := (1 + u) ^ k1) in *. pose proof (magnitude_pos l1).
      assert (g * 1 <= g * (1 + u)) by (apply Rmult_le_compat_l; lra).
      assert (A : g * magnitude l1 <= (1 + u) * g * magnitude l2) by (apply Rmult_le_compat; lra).
      assert (E : eta * g <= eta * ((1 + u) * g)) by (apply Rmult_le_compat_l; lra).
      assert (B : (2 * INR (length l1) - 1) * (eta * g) <= (2 * INR (length l2) - 1) * (eta * ((1 + u) * g))).
      { apply Rmult_le_compat; try lra. apply Rmult_le_pos; lra. }
      lra. }
    induction 1 as [a|a b|k l l' v w m m' H1 IH1 H2 IH2|k l a b v m H IH|k l v m H IH|k l l' v m P H IH].
    - unfold bound_of, total, magnitude. cbn [fold_right worth length INR pow].
      replace (a - (a + 0)) with 0 by ring. rewrite Rabs_R0. repeat split; try lra; nra.
    - assert (B : Rabs (rnd f (a * b) - total [Product a b]) <= bound_of 1 [Product a b]).
      { unfold bound_of, total, magnitude. cbn [fold_right worth length INR]. rewrite !Rplus_0_r.
        apply step_ok; try lra; [apply Rabs_pos|]. rewrite Rminus_diag_eq, Rabs_R0 by trivial. simpl. lra. }
      split; [cbn [length INR]; lra|]. split; [exact B|now apply Large].
    - destruct IH1 as [N1 [B1 M1]], IH2 as [N2 [B2 M2]].
      assert (B : Rabs (rnd f (v + w) - total (l ++ l')) <= bound_of (S k) (l ++ l')).
      { unfold bound_of. rewrite total_app, magnitude_app, app_length, plus_INR.
        pose proof (magnitude_pos l). pose proof (magnitude_pos l').
        apply step_ok; try lra.
        - eapply Rle_trans; [apply Rabs_triang|]. pose proof (total_le l). pose proof (total_le l'). lra.
        - replace (v + w - (total l + total l')) with ((v - total l) + (w - total l')) by ring.
          eapply Rle_trans; [apply Rabs_triang|]. unfold bound_of in B1, B2. lra. }
      split; [rewrite app_length, plus_INR; lra|]. split; [exact B|].
      pose proof (magnitude_pos l). pose proof (magnitude_pos l').
      apply Rmax_lub; [apply Rmax_lub|now apply Large].
      + eapply Rle_trans; [exact M1|]. apply More; trivial; rewrite ?magnitude_app, ?app_length, ?plus_INR; lra.
      + eapply Rle_trans; [exact M2|]. apply More; trivial; rewrite ?magnitude_app, ?app_length, ?plus_INR; lra.
    - destruct IH as [N1 [B1 M1]].
      assert (B : Rabs (rnd f (a * b + v) - total (Product a b :: l)) <= bound_of (S k) (Product a b :: l)).
      { unfold bound_of, total, magnitude. cbn [fold_right worth length]. fold (total l) (magnitude l).
        rewrite S_INR. pose proof (magnitude_pos l). pose proof (Rabs_pos (a * b)).
        apply step_ok; try lra.
        - eapply Rle_trans; [apply Rabs_triang|]. pose proof (total_le l). lra.
        - replace (a * b + v - (a * b + total l)) with (v - total l) by ring. unfold bound_of in B1.
          pose proof (grown k) as G. set (g := (1 + u) ^ k) in *.
          assert (0 <= (g - 1) * Rabs (a * b)) by (apply Rmult_le_pos; lra).
          assert (0 <= eta * g) by (apply Rmult_le_pos; lra). lra. }
      split; [cbn [length]; rewrite S_INR; lra|]. split; [exact B|].
      apply Rmax_lub; [|now apply Large]. eapply Rle_trans; [exact M1|]. apply More; trivial.
      + unfold magnitude. cbn [fold_right]. pose proof (Rabs_pos (worth (Product a b))). lra.
      + cbn [length]. rewrite S_INR. lra.
    - destruct IH as [N1 [B1 M1]]. split; [exact N1|].
      assert (L : bound_of k l <= bound_of (S k) l) by (pose proof (More l k l N1); lra).
      split; lra.
    - destruct (order_ok _ _ P) as [T [A L]]. unfold bound_of in *. rewrite <- T, <- A, <- L. exact IH.
  Qed.

  Lemma growth_ok k : (1 + u) ^ k - 1 <= Q2R (growth (relative (unit_of f low)) k).
  Proof.
    pose proof u_pos as U. induction k as [|k IH]; cbn [growth pow]; [rewrite Q2R_0; lra|].
    cbv zeta. eapply Rle_trans; [|apply up_ok]. autorewrite with q2r. fold u.
    set (g := (1 + u) ^ k) in *. set (G := Q2R (growth _ k)) in *.
    assert (u * (g - 1) <= u * G) by (apply Rmult_le_compat_l; trivial). lra.
  Qed.

  Lemma sum_error_ok k l A n :
    magnitude l <= Q2R A -> (length l <= n)%nat -> (1 <= length l)%nat ->
    bound_of k l <= Q2R (sum_error (unit_of f low) k n A).
  Proof.
    intros HA Hn H1. unfold sum_error. cbv zeta. eapply Rle_trans; [|apply up_ok].
    autorewrite with q2r. rewrite Q2R_integer, <- INR_IZR_INZ. fold eta.
    pose proof (growth_ok k) as G. pose proof (grown k) as O. pose proof eta_pos as N.
    pose proof (magnitude_pos l) as M. set (g := Q2R (growth _ k)) in *. unfold bound_of.
    apply le_INR in Hn. apply le_INR in H1. rewrite plus_INR. cbn [INR] in H1.
    apply Rplus_le_compat; [apply Rmult_le_compat; lra|].
    replace ((2 * INR (length l) - 1) * (eta * (1 + u) ^ k))
      with ((2 * INR (length l) - 1) * eta * (1 + u) ^ k) by ring.
    apply Rmult_le_compat; try lra; [apply Rmult_le_pos; lra|]. apply Rmult_le_compat_r; lra.
  Qed.

  (** A sum of at most n leaves in any order. *)
  Lemma bound_of_more k n l : (k <= n)%nat -> (1 <= length l)%nat -> bound_of k l <= bound_of n l.
  Proof.
    intros K L. induction K as [|n K IH]; [lra|]. eapply Rle_trans; [exact IH|].
    unfold bound_of. pose proof u_pos as U. pose proof eta_pos as N. pose proof (grown n) as G.
    pose proof (magnitude_pos l) as M. apply le_INR in L. cbn [INR] in L. cbn [pow].
    set (g := (1 + u) ^ n) in *.
    assert (I : g * 1 <= g * (1 + u)) by (apply Rmult_le_compat_l; lra).
    apply Rplus_le_compat; [apply Rmult_le_compat_r; lra|].
    apply Rmult_le_compat_l; [lra|]. apply Rmult_le_compat_l; lra.
  Qed.

  Lemma sum_error_pos k n A : 0 <= Q2R A -> 0 <= Q2R (sum_error (unit_of f low) k n A).
  Proof.
    intros HA. unfold sum_error. cbv zeta. eapply Rle_trans; [|apply up_ok].
    autorewrite with q2r. rewrite Q2R_integer, <- INR_IZR_INZ. fold eta.
    pose proof (growth_ok k). pose proof (grown k). pose proof eta_pos. pose proof (pos_INR (n + n)).
    not_negative.
  Qed.

  Lemma qmax_ok a b c : c <= Q2R a \/ c <= Q2R b -> c <= Q2R (qmax a b).
  Proof.
    unfold qmax. destruct (Qle_bool a b) eqn:E.
    - apply qle_ok in E. intros [H|H]; lra.
    - assert (K : qlt b a = true) by (unfold qlt; now rewrite E). apply qlt_iff in K. intros [H|H]; lra.
  Qed.

  Lemma around v w s e : Rabs w <= Q2R s -> Rabs (v - w) <= Q2R e -> Rabs v <= Q2R (qadd s e).
  Proof.
    intros A B. rewrite Q2R_qadd. replace v with (w + (v - w)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. lra.
  Qed.
End Format.
