(** Domains, and how large the tokens' features are on them. *)

From Coq Require Import Reals QArith Qreals Qabs List Bool Lra Lia.
From Exactformer Require Import Semantics Rationals.
Import ListNotations.
Open Scope R_scope.

Inductive domain :=
  | Ball (centre : list Q) (radius : Q)
  | Box (centre half_widths : list Q).

Fixpoint minus (x : list R) (c : list Q) : list R :=
  match x, c with
  | a :: x, q :: c => (a - Q2R q) :: minus x c
  | _, _ => []
  end.

Fixpoint squares (x : list R) : R :=
  match x with
  | [] => 0
  | a :: x => a ^ 2 + squares x
  end.

Fixpoint within (x : list R) (h : list Q) : Prop :=
  match x, h with
  | [], [] => True
  | a :: x, q :: h => Rabs a <= Q2R q /\ within x h
  | _, _ => False
  end.

Definition inside (D : domain) (x : list R) : Prop :=
  match D with
  | Ball c r => length x = length c /\ squares (minus x c) <= Q2R r ^ 2
  | Box c h => length x = length c /\ within (minus x c) h
  end.

Definition centre (D : domain) : list Q := match D with Ball c _ => c | Box c _ => c end.

Lemma inside_length D x : inside D x -> length x = length (centre D).
Proof. destruct D; intros H; apply H. Qed.

Lemma minus_length x c : length x = length c -> length (minus x c) = length c.
Proof. revert c; induction x; intros [|]; simpl; intros H; try discriminate; auto. Qed.

(** ** Linear forms *)

Fixpoint qlinear (row c : list Q) : Q :=
  match row, c with
  | q :: row, a :: c => qadd (qmul q a) (qlinear row c)
  | _, _ => 0%Q
  end.

Lemma qlinear_ok row c : Q2R (qlinear row c) = linear row (map Q2R c).
Proof.
  revert c; induction row as [|q row IH]; intros [|a c]; cbn [qlinear linear map];
    autorewrite with q2r; trivial. now rewrite IH.
Qed.

Lemma linear_minus row x c :
  length x = length c -> linear row x = Q2R (qlinear row c) + linear row (minus x c).
Proof.
  revert x c; induction row as [|q row IH]; intros [|a x] [|b c] H; simpl in *;
    try discriminate; autorewrite with q2r; try ring.
  rewrite (IH x c) by lia. ring.
Qed.

Lemma squares_pos x : 0 <= squares x.
Proof. induction x as [|a x IH]; simpl; [lra|]. pose proof (pow2_ge_0 a). simpl in *; lra. Qed.

Definition qsquares (row : list Q) : Q := qlinear row row.

Lemma qsquares_pos row : 0 <= Q2R (qsquares row).
Proof.
  unfold qsquares. induction row as [|q row IH]; simpl; autorewrite with q2r; [lra|].
  pose proof (Rle_0_sqr (Q2R q)). unfold Rsqr in *. lra.
Qed.

(** Cauchy and Schwarz. *)
Lemma linear_square row u : linear row u ^ 2 <= Q2R (qsquares row) * squares u.
Proof.
  revert u; induction row as [|q row IH]; intros u.
  - simpl. unfold qsquares; simpl; autorewrite with q2r. lra.
  - destruct u as [|a u].
    + simpl. rewrite !Rmult_0_r, Rmult_0_l. lra.
    + specialize (IH u). unfold qsquares in *. cbn [linear qlinear squares].
      autorewrite with q2r.
      set (S := Q2R (qlinear row row)) in *. set (l := linear row u) in *.
      set (U := squares u) in *. set (b := Q2R q) in *.
      assert (HS : 0 <= S) by apply (qsquares_pos row).
      assert (HU : 0 <= U) by apply squares_pos.
      (* 2 a b l <= b^2 U + a^2 S, since (2 a b l)^2 <= 4 a^2 b^2 S U <= (b^2 U + a^2 S)^2 *)
      assert (C : 2 * (b * a) * l <= b * b * U + a * a * S).
      { assert (P : 0 <= b * b * U + a * a * S).
        { apply Rplus_le_le_0_compat; apply Rmult_le_pos; trivial; apply Rle_0_sqr. }
        apply Rsqr_incr_0_var; trivial. unfold Rsqr.
        assert (X : (b * a) * (b * a) * (l * l) <= (b * a) * (b * a) * (S * U)).
        { apply Rmult_le_compat_l; [apply Rle_0_sqr|]. simpl in IH. lra. }
        pose proof (Rle_0_sqr (b * b * U - a * a * S)) as Y. unfold Rsqr in Y.
        lra. }
      simpl in *. lra.
Qed.

Lemma linear_within row u h : within u h -> Rabs (linear row u) <= Q2R (qlinear (map Qabs row) h).
Proof.
  revert u h; induction row as [|q row IH]; intros [|a u] [|b h] H; simpl in *;
    autorewrite with q2r; try (rewrite Rabs_R0); try lra; try contradiction.
  destruct H as [H K]. eapply Rle_trans; [apply Rabs_triang|].
  apply Rplus_le_compat; [|now apply IH]. rewrite Rabs_mult.
  apply Rmult_le_compat_l; trivial using Rabs_pos.
Qed.

(** ** A bound of |F_i (x - c)| *)

(** A rational above the square root, with about so many bits unless the root is rational. Few bits
    keep all later numbers short. Nothing is proven of it: the result is checked. *)
Definition root_above (bits : Z) (s : Q) : Q :=
  let exact := Qmake (Z.sqrt (Qnum s)) (Pos.sqrt (Qden s)) in
  if Qeq_bool (exact * exact) s then exact
  else
    let size := ((Z.log2 (Qnum s) - Z.log2 (Zpos (Qden s))) / 2)%Z in
    let k := Z.max 0 (bits - size) in
    Qred (Qmake (Z.sqrt (Qnum s * 4 ^ k / Zpos (Qden s)) + 1) (Z.to_pos (2 ^ k))).

Definition reach (bits : Z) (D : domain) (row : list Q) : Q :=
  match D with
  | Ball _ R => root_above bits (qmul (qsquares row) (qmul R R))
  | Box _ h => qlinear (map Qabs row) h
  end.

(** A row needs one entry per variable, and a reach above its length times the radius. *)
Definition reach_ok (D : domain) (row : list Q) (r : Q) : bool :=
  Nat.eqb (length row) (length (centre D)) andalso
  match D with
  | Ball _ R => Qle_bool 0 r andalso Qle_bool (qmul (qsquares row) (qmul R R)) (qmul r r)
  | Box _ h => Qle_bool (qlinear (map Qabs row) h) r
  end.

Lemma reach_sound D row r x :
  inside D x -> reach_ok D row r = true ->
  Rabs (linear row (minus x (centre D))) <= Q2R r.
Proof.
  unfold reach_ok. destruct (Nat.eqb _ _); [|discriminate].
  destruct D as [c R|c h]; intros [_ H] K; cbn [centre].
  - destruct (Qle_bool 0 r) eqn:K0; [|discriminate]. apply qle_ok in K0. apply qle_ok in K.
    autorewrite with q2r in *.
    rewrite <- (Rabs_pos_eq _ K0). apply Rsqr_le_abs_0. unfold Rsqr.
    pose proof (linear_square row (minus x c)) as C.
    assert (M : Q2R (qsquares row) * squares (minus x c)
                <= Q2R (qsquares row) * Q2R R ^ 2)
      by (apply Rmult_le_compat_l; [apply qsquares_pos|exact H]).
    simpl in C, M. lra.
  - apply qle_ok in K. eapply Rle_trans; [|exact K]. now apply linear_within.
Qed.

(** ** A bound of |F_i (x - c)| |F_j (x - c)|

    On a ball two features are not largest together unless their directions are parallel:
    2 |t_i t_j| <= r_i r_j + R^2 |F_i F_j|, where r_i >= |F_i| R. For u = x - c, the vector
    w = 2 t_i u - |u|^2 F_i is a reflection of |u|^2 F_i, hence as long; then Cauchy and Schwarz for
    F_j and w. *)

Fixpoint reflection (p s : R) (a : list Q) (u : list R) : list R :=
  match a, u with
  | q :: a, v :: u => (p * v - s * Q2R q) :: reflection p s a u
  | _, _ => []
  end.

Lemma linear_reflection p s a b u :
  length a = length u -> length b = length u ->
  linear b (reflection p s a u) = p * linear b u - s * Q2R (qlinear a b).
Proof.
  revert b u; induction a as [|q a IH]; intros [|q' b] [|v u] H H'; simpl in *; try discriminate;
    autorewrite with q2r; try ring.
  rewrite IH by lia. ring.
Qed.

Lemma squares_reflection p s a u :
  length a = length u ->
  squares (reflection p s a u)
  = p * p * squares u - 2 * p * s * linear a u + s * s * Q2R (qsquares a).
Proof.
  unfold qsquares. revert u; induction a as [|q a IH]; intros [|v u] H; simpl in *;
    try discriminate; autorewrite with q2r; try ring.
  rewrite IH by lia. ring.
Qed.

Definition pair_reach (D : domain) (row row' : list Q) (r r' : Q) : Q :=
  match D with
  | Ball _ R => qmul (1 # 2) (qadd (qmul r r') (qmul (qmul R R) (Qabs (qlinear row row'))))
  | Box _ _ => qmul r r'
  end.

Lemma pair_reach_sound D row row' r r' x :
  inside D x -> reach_ok D row r = true -> reach_ok D row' r' = true ->
  Rabs (linear row (minus x (centre D))) * Rabs (linear row' (minus x (centre D)))
  <= Q2R (pair_reach D row row' r r').
Proof.
  intros H K K'.
  pose proof (reach_sound D row r x H K) as B. pose proof (reach_sound D row' r' x H K') as B'.
  destruct D as [c R|c h]; unfold pair_reach; autorewrite with q2r;
    [|apply Rmult_le_compat; trivial using Rabs_pos].
  destruct H as [Hx H]. cbn [centre] in *. unfold reach_ok in K, K'. cbn [centre] in K, K'.
  destruct (Nat.eqb_spec (length row) (length c)) as [L|]; [|discriminate].
  destruct (Nat.eqb_spec (length row') (length c)) as [L'|]; [|discriminate].
  destruct (Qle_bool 0 r) eqn:P; [|discriminate]. destruct (Qle_bool 0 r') eqn:P'; [|discriminate].
  apply qle_ok in P, P', K, K'. autorewrite with q2r in *.
  pose proof (minus_length x c Hx) as Lu. set (u := minus x c) in *.
  rewrite <- Lu in L, L'.
  set (t := linear row u) in *. set (t' := linear row' u) in *. set (s := squares u) in *.
  assert (S0 : 0 <= s) by apply squares_pos.
  pose proof (linear_square row' (reflection (2 * t) s row u)) as C.
  rewrite linear_reflection, squares_reflection in C by trivial. fold t t' s in C.
  set (g := Q2R (qlinear row row')) in *. set (A := Q2R (qsquares row)) in *.
  set (A' := Q2R (qsquares row')) in *.
  assert (A0 : 0 <= A) by apply qsquares_pos. assert (A0' : 0 <= A') by apply qsquares_pos.
  replace (2 * t * (2 * t) * s - 2 * (2 * t) * s * t + s * s * A) with (s * s * A) in C by ring.
  assert (sA : 0 <= s * A <= Q2R r * Q2R r).
  { split; [now apply Rmult_le_pos|]. apply Rle_trans with (A * (Q2R R * Q2R R)); [|exact K].
    rewrite Rmult_comm. apply Rmult_le_compat_l; trivial. simpl in H. lra. }
  assert (sA' : 0 <= s * A' <= Q2R r' * Q2R r').
  { split; [now apply Rmult_le_pos|]. apply Rle_trans with (A' * (Q2R R * Q2R R)); [|exact K'].
    rewrite Rmult_comm. apply Rmult_le_compat_l; trivial. simpl in H. lra. }
  assert (M : (s * A) * (s * A') <= (Q2R r * Q2R r) * (Q2R r' * Q2R r'))
    by (apply Rmult_le_compat; lra).
  assert (E : Rabs (2 * t * t' - s * g) <= Q2R r * Q2R r').
  { rewrite <- (Rabs_pos_eq (Q2R r * Q2R r')) by (now apply Rmult_le_pos).
    apply Rsqr_le_abs_0. unfold Rsqr. simpl in C. lra. }
  assert (G : s * Rabs g <= Q2R R * Q2R R * Rabs g)
    by (apply Rmult_le_compat_r; [apply Rabs_pos|simpl in H; lra]).
  assert (T : 2 * (Rabs t * Rabs t') <= Q2R r * Q2R r' + s * Rabs g).
  { rewrite <- Rabs_mult. replace (2 * Rabs (t * t')) with (Rabs (2 * t * t')).
    - replace (2 * t * t') with ((2 * t * t' - s * g) + s * g) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. rewrite (Rabs_mult s), (Rabs_pos_eq s) by trivial. lra.
    - rewrite Rmult_assoc, (Rabs_mult 2), (Rabs_pos_eq 2) by lra. reflexivity. }
  lra.
Qed.
