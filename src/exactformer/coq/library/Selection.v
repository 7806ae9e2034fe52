(** Every token selects itself: its score with itself is the largest, everywhere on the domain.

    For tokens i and j the scores differ by ⟨q_i, k_i⟩ - ⟨q_i, k_j⟩, which does not change when the
    same constants are added to every key. So keys are first shifted to be small. Then the least value
    of ⟨q_i, k_i⟩ is compared with the largest of ⟨q_i, k_j⟩, row by row:

    - for all j at once, by the largest entry that any other token has in that row;
    - where this is not enough, pair by pair, with the bound of |t_i t_j| by the angle of the two
      directions. *)

From Coq Require Import Reals QArith Qreals Qabs List Lra Lia FMapPositive.
From Exactformer Require Import Semantics Rationals OneVariable Tokens Domains.
Import ListNotations.
Open Scope Q_scope.

(** A token that is followed: t is [direction] (x - c), |t| <= [bound]. *)
Record tracked := Tracked { direction : list Q; bound : Q; entries : token }.
Definition nothing : tracked := Tracked [] 0 [].
Definition state := list tracked.

(** A head with its matrices by columns. *)
Record prepared := Prepared {
  below : positive; queries : columns; biases : token; keys : columns; values : columns }.

Definition prepare (h : head) : prepared :=
  Prepared (limit h) (indexed (query h)) (constants (bias h)) (indexed (key h)) (indexed (value h)).

(** A token as a head sees it. *)
Record view := View { whose : tracked; asked : token; offered : token }.

Definition view_of (h : prepared) (a : tracked) : view :=
  View a (tsum (biases h) (apply_columns (queries h) (entries a)))
    (apply_columns (keys h) (entries a)).

(** ** Shifted keys *)

Definition shifted (by_ : list (positive * Q)) (v : view) : view :=
  View (whose v) (asked v) (tsum (map (fun e => (fst e, [snd e])) by_) (offered v)).

(** For every row that all tokens use, the middle of what [f] finds in them. *)
Definition shifts (f : Q -> upoly -> Q) (vs : list view) : list (positive * Q) :=
  match vs with
  | [] => []
  | v :: _ =>
      flat_map (fun e =>
        let rows := map (fun w => (bound (whose w), tget (fst e) (offered w))) vs in
        if forallb (fun b => match snd b with [] => false | _ => true end) rows then
          let found := map (fun b => f (fst b) (snd b)) rows in
          let least := fold_right qmin (hd 0 found) found in
          let most := fold_right qmax (hd 0 found) found in
          [(fst e, Qopp (qmul (1 # 2) (qadd least most)))]
        else []) (offered v)
  end.

(** ** The largest entries of every row: whose is the largest, how large, and the next. *)

Definition table := PositiveMap.t (nat * (Q * Q)).

Definition note (j : nat) (v : view) (m : table) : table :=
  fold_right (fun e m =>
    let s := size (bound (whose v)) (snd e) in
    match PositiveMap.find (fst e) m with
    | None => PositiveMap.add (fst e) (j, (s, 0)) m
    | Some (owner, (first, second)) =>
        if qlt first s then PositiveMap.add (fst e) (j, (s, first)) m
        else if qlt second s then PositiveMap.add (fst e) (owner, (first, s)) m
        else m
    end) m (offered v).

Fixpoint table_of (j : nat) (vs : list view) : table :=
  match vs with [] => PositiveMap.empty _ | v :: vs => note j v (table_of (S j) vs) end.

(** Nothing is proven of how the table was made: each token is checked against it. *)
Definition fits (m : table) (j : nat) (v : view) : bool :=
  forallb (fun e =>
    let s := size (bound (whose v)) (tget (fst e) (offered v)) in
    match PositiveMap.find (fst e) m with
    | None => false
    | Some (owner, (first, second)) =>
        Qle_bool s (Qabs first) andalso (Nat.eqb j owner orelse Qle_bool s (Qabs second))
    end) (offered v).

(** What any token but i has in row r, at most. *)
Definition others (m : table) (i : nat) (r : positive) : Q :=
  match PositiveMap.find r m with
  | None => 0
  | Some (owner, (first, second)) => Qabs (if Nat.eqb i owner then second else first)
  end.

(** ** The comparison *)

Fixpoint total (below : positive) (f : positive -> upoly -> Q) (q : token) : Q :=
  match q with
  | [] => 0
  | (r, a) :: q => if Pos.ltb r below then qadd (f r a) (total below f q) else total below f q
  end.

Definition least (below : positive) (v : view) : Q :=
  low (bound (whose v)) (dot below (asked v) (offered v)).

Definition above_all (below : positive) (m : table) (i : nat) (v : view) : bool :=
  qlt (total below (fun r a => qmul (size (bound (whose v)) a) (others m i r)) (asked v))
    (least below v).

(** A bound of p(t_i) q(t_j). *)
Definition product (D : domain) (a b : tracked) (p q : upoly) : Q :=
  match q with
  | [] => 0
  | _ =>
      let plain := qmul (size (bound a) p) (size (bound b) q) in
      if through_zero p andalso through_zero q then
        qmin plain
          (qmul (qmul (slope (bound a) p) (slope (bound b) q))
             (pair_reach D (direction a) (direction b) (bound a) (bound b)))
      else plain
  end.

Definition above (D : domain) (below : positive) (v w : view) (least : Q) : bool :=
  qlt (total below (fun r p => product D (whose v) (whose w) p (tget r (offered w))) (asked v)) least.

(** The first in a list that fails a test. *)
Fixpoint first_failing {X} (test : nat -> X -> bool) (i : nat) (l : list X) : option nat :=
  match l with
  | [] => None
  | x :: l => if test i x then first_failing test (S i) l else Some i
  end.

Definition none {X} (o : option X) : bool := match o with None => true | Some _ => false end.

Definition above_each (D : domain) (below : positive) (vs : list view) (i : nat) (v : view) : bool :=
  let l := least below v in
  none (first_failing (fun j w => Nat.eqb i j orelse above D below v w l) 0 vs).

Definition attempt (D : domain) (below : positive) (pairs : bool) (vs : list view) : option nat :=
  let m := table_of 0 vs in
  let fitting := none (first_failing (fits m) 0 vs) in
  first_failing (fun i v =>
    (fitting andalso above_all below m i v) orelse (pairs andalso above_each D below vs i v)) 0 vs.

Definition unselected (D : domain) (h : prepared) (A : state) : option nat :=
  let vs := map (view_of h) A in
  if none (attempt D (below h) false (map (shifted (shifts middle vs)) vs)) then None
  else attempt D (below h) true (map (shifted (shifts (fun _ p => hd 0 p) vs)) vs).

(** ** Soundness *)

Open Scope R_scope.

Definition feature_of (D : domain) (x : list R) (a : tracked) : R :=
  linear (direction a) (minus x (centre D)).

Definition tracks (D : domain) (x : list R) (a : tracked) (v : vector) : Prop :=
  reach_ok D (direction a) (bound a) = true /\ rep (entries a) (feature_of D x a) v.

Definition follows (D : domain) (x : list R) (A : state) (z : stream) : Prop :=
  forall i, (i < length A)%nat -> tracks D x (nth i A nothing) (z i).

Lemma first_failing_none {X} test i (l : list X) d k :
  first_failing test i l = None -> (k < length l)%nat -> test (i + k)%nat (nth k l d) = true.
Proof.
  revert i k; induction l as [|x l IH]; intros i k H Hk; simpl in *; [lia|].
  destruct (test i x) eqn:E; [|discriminate]. destruct k as [|k].
  - now rewrite Nat.add_0_r.
  - rewrite Nat.add_succ_r, <- Nat.add_succ_l. apply IH; trivial. lia.
Qed.

Lemma total_ok below f q s g :
  (forall r a, peval a s * g r <= Q2R (f r a)) -> pairing below q s g <= Q2R (total below f q).
Proof.
  intros H. induction q as [|[r a] q IH]; cbn [pairing total]; [rewrite Q2R_0; lra|].
  destruct (Pos.ltb r below); [|lra]. autorewrite with q2r. specialize (H r a). lra.
Qed.

Lemma pairing_shift below q s g c :
  pairing below q s (fun r => c r + g r) = pairing below q s c + pairing below q s g.
Proof.
  induction q as [|[r a] q IH]; cbn [pairing]; [ring|].
  rewrite IH. destruct (Pos.ltb r below); ring.
Qed.

Lemma pairing_ext below q s g g' :
  (forall r, g r = g' r) -> pairing below q s g = pairing below q s g'.
Proof.
  intros H. induction q as [|[r a] q IH]; cbn [pairing]; trivial. now rewrite H, IH.
Qed.

Lemma tval_shifted by_ v t r : tval (offered (shifted by_ v)) t r = cval by_ r + tval (offered v) t r.
Proof.
  cbn [shifted offered]. rewrite tval_tsum. f_equal.
  induction by_ as [|[i q] l IH]; cbn [map tval cval fst snd]; trivial.
  rewrite IH. cbn [peval]. destruct (Pos.eqb i r); ring.
Qed.

Lemma tval_absent z t r : existsb (fun e => Pos.eqb (fst e) r) z = false -> tval z t r = 0.
Proof.
  induction z as [|[j p] z IH]; cbn [existsb tval fst]; trivial.
  destruct (Pos.eqb j r); [discriminate|]. intros H. rewrite (IH H). ring.
Qed.

Lemma fits_ok m i j v t r :
  fits m j v = true -> i <> j -> Rabs t <= Q2R (bound (whose v)) ->
  Rabs (tval (offered v) t r) <= Q2R (others m i r).
Proof.
  intros H N Ht. unfold fits in H. rewrite forallb_forall in H.
  destruct (existsb (fun e => Pos.eqb (fst e) r) (offered v)) eqn:E.
  - apply existsb_exists in E as [[k p] [I E]]. cbn [fst] in E. apply Pos.eqb_eq in E. subst k.
    specialize (H _ I). cbn [fst] in H. unfold others.
    pose proof (size_ok (bound (whose v)) (tget r (offered v)) t Ht) as B. rewrite tget_ok in B.
    destruct (PositiveMap.find r m) as [[o [f s]]|]; [|discriminate].
    destruct (Qle_bool _ (Qabs f)) eqn:F; [|discriminate]. apply qle_ok in F.
    destruct (Nat.eqb_spec i o) as [->|_]; [|lra].
    apply Nat.eqb_neq in N. rewrite Nat.eqb_sym, N in H. apply qle_ok in H. lra.
  - rewrite (tval_absent _ _ _ E), Rabs_R0. unfold others.
    destruct (PositiveMap.find r m) as [[o [f s]]|]; autorewrite with q2r; [apply Rabs_pos|lra].
Qed.

Lemma product_le a b c d : Rabs a <= c -> Rabs b <= d -> a * b <= c * d.
Proof.
  intros H K. apply Rle_trans with (Rabs (a * b)); [apply Rle_abs|]. rewrite Rabs_mult.
  apply Rmult_le_compat; trivial using Rabs_pos.
Qed.

Lemma product_ok D x a b p q :
  inside D x -> reach_ok D (direction a) (bound a) = true ->
  reach_ok D (direction b) (bound b) = true ->
  peval p (feature_of D x a) * peval q (feature_of D x b) <= Q2R (product D a b p q).
Proof.
  intros Hx Ra Rb. pose proof (reach_sound _ _ _ _ Hx Ra) as Ha.
  pose proof (reach_sound _ _ _ _ Hx Rb) as Hb. fold (feature_of D x a) in Ha.
  fold (feature_of D x b) in Hb. unfold product. destruct q as [|c q].
  { cbn [peval]. rewrite Q2R_0. lra. }
  set (q' := c :: q). cbv zeta.
  assert (P : peval p (feature_of D x a) * peval q' (feature_of D x b)
              <= Q2R (qmul (size (bound a) p) (size (bound b) q')))
    by (rewrite Q2R_qmul; apply product_le; now apply size_ok).
  destruct (through_zero p) eqn:Zp; trivial. destruct (through_zero q') eqn:Zq; trivial.
  apply qmin_ok; trivial. autorewrite with q2r.
  pose proof (slope_ok _ _ _ Zp Ha) as Sa. pose proof (slope_ok _ _ _ Zq Hb) as Sb.
  pose proof (pair_reach_sound D _ _ _ _ x Hx Ra Rb) as R.
  fold (feature_of D x a) in R. fold (feature_of D x b) in R.
  eapply Rle_trans; [apply product_le; [exact Sa|exact Sb]|].
  assert (0 <= Q2R (slope (bound a) p) * Q2R (slope (bound b) q')).
  { apply Rmult_le_pos.
    - apply Rle_trans with (Rabs (peval (tl p) (feature_of D x a))); [apply Rabs_pos|now apply size_ok].
    - apply Rle_trans with (Rabs (peval (tl q') (feature_of D x b))); [apply Rabs_pos|now apply size_ok]. }
  replace (_ * Rabs (feature_of D x a) * (_ * Rabs (feature_of D x b)))
    with (Q2R (slope (bound a) p) * Q2R (slope (bound b) q')
          * (Rabs (feature_of D x a) * Rabs (feature_of D x b))) by ring.
  now apply Rmult_le_compat_l.
Qed.

Section Head.
  Variables (D : domain) (x : list R) (h : head) (A : state) (z : stream).
  Hypothesis Hx : inside D x.
  Hypothesis HF : follows D x A z.

  Definition seen (i : nat) : view := view_of (prepare h) (nth i A nothing).
  Definition t (i : nat) : R := feature_of D x (nth i A nothing).

  Lemma query_rep i : (i < length A)%nat ->
    rep (asked (seen i)) (t i) (fun r => times (query h) (z i) r + dense (bias h) r).
  Proof.
    intros Hi d. destruct (HF i Hi) as [_ Z]. cbn [seen view_of asked prepare biases queries].
    unfold t. rewrite tval_tsum, <- (rep_constants (bias h) _ d), <- (rep_times (query h) _ _ _ Z d).
    ring.
  Qed.

  Lemma key_rep i : (i < length A)%nat -> rep (offered (seen i)) (t i) (times (key h) (z i)).
  Proof. intros Hi. destruct (HF i Hi) as [_ Z]. now apply rep_times. Qed.

  Lemma t_bound i : (i < length A)%nat -> Rabs (t i) <= Q2R (bound (nth i A nothing)).
  Proof. intros Hi. destruct (HF i Hi) as [R _]. now apply reach_sound. Qed.

  Lemma score_self i : (i < length A)%nat ->
    score h z i i = peval (dot (limit h) (asked (seen i)) (offered (seen i))) (t i).
  Proof.
    intros Hi. rewrite dot_ok. apply score_pairing; [now apply query_rep|now apply key_rep].
  Qed.

  (** Larger with shifted keys is larger. *)
  Lemma score_less by_ i j :
    (i < length A)%nat -> (j < length A)%nat ->
    pairing (limit h) (asked (seen i)) (t i) (tval (offered (shifted by_ (seen j))) (t j))
    < Q2R (least (limit h) (shifted by_ (seen i))) ->
    score h z i j < score h z i i.
  Proof.
    intros Hi Hj L. pose proof (t_bound i Hi) as B.
    assert (K : Q2R (least (limit h) (shifted by_ (seen i)))
                <= pairing (limit h) (asked (seen i)) (t i) (tval (offered (shifted by_ (seen i))) (t i))).
    { rewrite <- dot_ok. now apply low_ok. }
    rewrite (score_pairing h z i j _ _ _ _ (query_rep i Hi) (key_rep j Hj)).
    rewrite (score_pairing h z i i _ _ _ _ (query_rep i Hi) (key_rep i Hi)).
    rewrite (pairing_ext _ _ _ _ _ (tval_shifted by_ (seen j) (t j))), pairing_shift in L.
    rewrite (pairing_ext _ _ _ _ _ (tval_shifted by_ (seen i) (t i))), pairing_shift in K.
    lra.
  Qed.

  Section Shifted.
    Variable by_ : list (positive * Q).
    Let vs : list view := map (shifted by_) (map (view_of (prepare h)) A).
    Let none_seen : view := shifted by_ (view_of (prepare h) nothing).

    Lemma nth_shifted k : nth k vs none_seen = shifted by_ (seen k).
    Proof. unfold vs, none_seen. rewrite map_nth. f_equal. apply map_nth. Qed.

    Lemma none_failing test k :
      none (first_failing test 0 vs) = true -> (k < length A)%nat ->
      test k (shifted by_ (seen k)) = true.
    Proof.
      intros H Hk. destruct (first_failing test 0 vs) eqn:E; [discriminate|].
      rewrite <- nth_shifted. apply (first_failing_none test 0 vs none_seen k E).
      unfold vs. now rewrite !map_length.
    Qed.

    Lemma above_all_ok i j :
      (i < length A)%nat -> (j < length A)%nat -> j <> i ->
      none (first_failing (fits (table_of 0 vs)) 0 vs) = true ->
      above_all (limit h) (table_of 0 vs) i (shifted by_ (seen i)) = true ->
      score h z i j < score h z i i.
    Proof.
      intros Hi Hj N F G. apply (score_less by_); trivial. apply qlt_iff in G.
      eapply Rle_lt_trans; [|exact G]. apply total_ok. intros r a. rewrite Q2R_qmul.
      apply product_le; [apply size_ok; now apply t_bound|].
      apply (fits_ok _ i j (shifted by_ (seen j))); [|auto|now apply t_bound].
      apply (none_failing (fits (table_of 0 vs))); trivial.
    Qed.

    Lemma above_each_ok i j :
      (i < length A)%nat -> (j < length A)%nat -> j <> i ->
      above_each D (limit h) vs i (shifted by_ (seen i)) = true -> score h z i j < score h z i i.
    Proof.
      intros Hi Hj N H. apply (score_less by_); trivial. apply none_failing with (k := j) in H; trivial.
      apply Nat.neq_sym, Nat.eqb_neq in N. rewrite N in H. apply qlt_iff in H.
      eapply Rle_lt_trans; [|exact H]. apply total_ok. intros r a. rewrite <- tget_ok.
      destruct (HF i Hi) as [Ri _]. destruct (HF j Hj) as [Rj _]. now apply product_ok.
    Qed.

    Lemma attempt_ok pairs i j :
      none (attempt D (limit h) pairs vs) = true ->
      (i < length A)%nat -> (j < length A)%nat -> j <> i -> score h z i j < score h z i i.
    Proof.
      intros H Hi Hj N. unfold attempt in H. cbv zeta in H.
      apply none_failing with (k := i) in H; trivial.
      destruct (none (first_failing (fits (table_of 0 vs)) 0 vs)) eqn:F.
      - destruct (above_all (limit h) (table_of 0 vs) i (shifted by_ (seen i))) eqn:G.
        + now apply above_all_ok.
        + destruct pairs; [now apply above_each_ok|discriminate].
      - destruct pairs; [now apply above_each_ok|discriminate].
    Qed.
  End Shifted.

  Theorem selection_ok i j :
    none (unselected D (prepare h) A) = true ->
    (i < length A)%nat -> (j < length A)%nat -> j <> i -> score h z i j < score h z i i.
  Proof.
    unfold unselected. cbv zeta. cbn [prepare below].
    destruct (none (attempt _ _ false _)) eqn:E; intros H.
    - exact (attempt_ok _ _ i j E).
    - exact (attempt_ok _ _ i j H).
  Qed.
End Head.
