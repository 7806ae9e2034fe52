(** The semantics, run on rational points.

    [qrun] computes what [run] defines: a test that the definitions of this library are those of the
    Python package, for points inside and outside a domain, equal scores included. Streams are stored
    between blocks, so that the work grows with the number of blocks and not exponentially. *)

From Coq Require Import Reals QArith Qreals List Lra Lia.
From Exactformer Require Import Semantics Rationals Tokens Domains.
Import ListNotations.
Open Scope Q_scope.

(** ** Functions of which the first values are stored *)

Definition kept {X} (n : nat) (f : nat -> X) : nat -> X :=
  let l := map f (seq 0 n) in
  fun k => match nth_error l k with Some x => x | None => f k end.

Lemma nth_error_seq {X} (f : nat -> X) first n k :
  nth_error (map f (seq first n)) k = if Nat.ltb k n then Some (f (first + k)%nat) else None.
Proof.
  revert first k; induction n as [|n IH]; intros first k; cbn [seq map]; [now destruct k|].
  destruct k as [|k]; cbn [nth_error]; [now rewrite Nat.add_0_r|].
  rewrite IH, Nat.add_succ_r, Nat.add_succ_l. reflexivity.
Qed.

Lemma kept_ok {X} n (f : nat -> X) k : kept n f k = f k.
Proof. unfold kept. rewrite nth_error_seq. now destruct (Nat.ltb k n). Qed.

(** ** The definitions of [Semantics], over Q *)

Definition qvector := nat -> Q.

Fixpoint qsum (f : nat -> Q) (n : nat) : Q :=
  match n with O => 0 | S m => qadd (f O) (qsum (fun k => f (S k)) m) end.

Fixpoint qrow (row : sparse) (v : qvector) : Q :=
  match row with [] => 0 | (j, q) :: rest => qadd (qmul q (v j)) (qrow rest v) end.

Definition qtimes (M : matrix) (v : qvector) : qvector := fun i => qrow (nth i M []) v.

Fixpoint qdense (row : sparse) : qvector := fun d =>
  match row with
  | [] => 0
  | (j, q) :: rest => qadd (if Nat.eqb j d then q else 0) (qdense rest d)
  end.

Definition qscore (h : head) (z : nat -> qvector) (i : nat) : qvector :=
  let m := length (query h) in
  let q := kept m (fun r => qadd (qtimes (query h) (z i) r) (qdense (bias h) r)) in
  fun j => qsum (fun r => qmul (q r) (qtimes (key h) (z j) r)) m.

Fixpoint qargmax (s : qvector) (n : nat) : nat :=
  match n with
  | O => O
  | S m => let best := qargmax s m in if qlt (s best) (s m) then m else best
  end.

Fixpoint qcount (s : qvector) (m : Q) (n : nat) : nat :=
  match n with
  | O => O
  | S k => if Qeq_bool (s k) m then S (qcount s m k) else qcount s m k
  end.

Definition qweight (how : rule) (s : qvector) (n : nat) : qvector :=
  let best := qargmax s n in
  match how with
  | OneHotMax => fun j => if Nat.eqb j best then s j else 0
  | HardMax =>
      let share := Qinv (inject_Z (Z.of_nat (qcount s (s best) n))) in
      fun j => if Qeq_bool (s j) (s best) then share else 0
  end.

Definition qattend (n : nat) (how : rule) (h : head) (z : nat -> qvector) (i : nat) : qvector :=
  let w := kept n (qweight how (kept n (qscore h z i)) n) in
  fun d => qsum (fun j => if zero (w j) then 0 else qmul (w j) (qtimes (value h) (z j) d)) n.

Definition qattention (n : nat) (how : rule) (hs : list head) (z : nat -> qvector) (i : nat)
    : qvector :=
  let added := map (fun h => qattend n how h z i) hs in
  fun d => fold_right (fun v e => qadd (v d) e) (z i d) added.

Definition qactivate (f : activation) (a : Q) : Q :=
  match f with Relu => qmax 0 a | Identity => a end.

Definition qfeed (f : feed_forward) (v : qvector) : qvector :=
  let units := kept (length (w1 f)) (fun u =>
    qactivate (activated_by f) (qadd (qtimes (w1 f) v u) (qdense (b1 f) u))) in
  fun d => qadd (v d) (qadd (qtimes (w2 f) units d) (qdense (b2 f) d)).

(** n tokens and w dimensions are stored; those beyond are computed when they are asked for. *)
Definition qrun_block (n w : nat) (b : block) (z : nat -> qvector) : nat -> qvector :=
  kept n (fun i => kept w (qfeed (feeding b) (kept w (qattention n (selects_by b) (heads b) z i)))).

Definition qembed (T : transformer) (x : list Q) : nat -> qvector := fun i d =>
  qadd (qdense (nth i (constant T) []) d)
    (if Nat.eqb (feature T) d then qlinear (nth i (features T) []) x else 0).

Definition qread (n : nat) (r : matrix * Q) (z : nat -> qvector) : Q :=
  qadd (snd r) (qsum (fun i => qrow (nth i (fst r) []) (z i)) n).

Definition qrun (w : nat) (T : transformer) (x : list Q) : list Q :=
  let n := tokens T in
  let z := fold_left (fun z b => qrun_block n w b z) (blocks T)
             (kept n (fun i => kept w (qembed T x i))) in
  map (fun r => qread n r z) (readouts T).

(** ** They are the definitions of [Semantics] *)

Open Scope R_scope.

Definition same (v : qvector) (w : vector) : Prop := forall d, w d = Q2R (v d).
Definition same_stream (z : nat -> qvector) (y : stream) : Prop := forall i, same (z i) (y i).

Lemma same_kept n v w : same v w -> same (kept n v) w.
Proof. intros H d. now rewrite kept_ok. Qed.

Lemma qsum_ok f g n : (forall k, (k < n)%nat -> g k = Q2R (f k)) -> sum g n = Q2R (qsum f n).
Proof.
  revert f g; induction n as [|n IH]; intros f g H; cbn [sum qsum]; autorewrite with q2r; trivial.
  rewrite (H 0%nat) by lia. f_equal. apply IH. intros k Hk. apply H. lia.
Qed.

Lemma qrow_ok row v w : same v w -> row_times row w = Q2R (qrow row v).
Proof.
  intros H. induction row as [|[j q] row IH]; cbn [row_times qrow]; autorewrite with q2r; trivial.
  now rewrite H, IH.
Qed.

Lemma qtimes_ok M v w : same v w -> same (qtimes M v) (times M w).
Proof. intros H d. now apply qrow_ok. Qed.

Lemma qdense_ok row : same (qdense row) (dense row).
Proof.
  intros d. induction row as [|[j q] row IH]; cbn [dense qdense]; autorewrite with q2r; trivial.
  rewrite IH. destruct (Nat.eqb j d); autorewrite with q2r; ring.
Qed.

Lemma qscore_ok h z y i : same_stream z y -> same (qscore h z i) (score h y i).
Proof.
  intros H j. apply qsum_ok. intros r _. rewrite kept_ok. autorewrite with q2r.
  now rewrite (qtimes_ok _ _ _ (H i)), (qtimes_ok _ _ _ (H j)), (qdense_ok (bias h) r).
Qed.

Lemma qargmax_ok s t n : same s t -> argmax t n = qargmax s n.
Proof.
  intros H. induction n as [|n IH]; cbn [argmax qargmax]; trivial. cbv zeta. rewrite IH, !H.
  destruct (Rlt_dec _ _) as [L|L].
  - apply qlt_iff in L. now rewrite L.
  - destruct (qlt _ _) eqn:E; trivial. apply qlt_iff in E. contradiction.
Qed.

Lemma qeq_iff a b : Qeq_bool a b = true <-> Q2R a = Q2R b.
Proof. rewrite Qeq_bool_iff. split; [apply Qeq_eqR|apply eqR_Qeq]. Qed.

Lemma qcount_ok s t m n : same s t -> count t (Q2R m) n = qcount s m n.
Proof.
  intros H. induction n as [|n IH]; cbn [count qcount]; trivial. rewrite IH, H.
  destruct (Req_EM_T _ _) as [E|E].
  - apply qeq_iff in E. now rewrite E.
  - destruct (Qeq_bool _ _) eqn:F; trivial. apply qeq_iff in F. contradiction.
Qed.

Lemma count_pos t m n j : (j < n)%nat -> t j = m -> (0 < count t m n)%nat.
Proof.
  induction n as [|n IH]; intros Hj E; [lia|]. cbn [count]. destruct (Req_EM_T _ _) as [_|N]; [lia|].
  apply IH; trivial. destruct (Nat.eq_dec j n) as [->|]; [contradiction|lia].
Qed.

Lemma qweight_ok how s t n j :
  same s t -> (j < n)%nat -> weight how t n j = Q2R (qweight how s n j).
Proof.
  intros H Hj. unfold weight, qweight. cbv zeta. rewrite (qargmax_ok s t n H). destruct how.
  - destruct (Nat.eqb _ _); [apply H|now rewrite Q2R_0].
  - rewrite !H, (qcount_ok s t _ n H). destruct (Req_EM_T _ _) as [E|E].
    + pose proof (count_pos t (Q2R (s (qargmax s n))) n j Hj) as P. rewrite H in P. specialize (P E).
      rewrite (qcount_ok s t _ n H) in P. apply qeq_iff in E. rewrite E.
      set (c := qcount _ _ _) in *.
      assert (N : ~ inject_Z (Z.of_nat c) == 0)
        by (intros C; unfold Qeq in C; simpl in C; lia).
      rewrite Q2R_inv by trivial. unfold Rdiv. rewrite Rmult_1_l. f_equal.
      rewrite INR_IZR_INZ. unfold inject_Z. now rewrite Q2R_integer.
    + destruct (Qeq_bool _ _) eqn:F; [|now rewrite Q2R_0]. apply qeq_iff in F. contradiction.
Qed.

Lemma qattend_ok n how h z y i : same_stream z y -> same (qattend n how h z i) (attend n how h y i).
Proof.
  intros H d. unfold attend, qattend. cbv zeta. apply qsum_ok. intros j Hj. rewrite kept_ok.
  rewrite (qweight_ok how (kept n (qscore h z i)) _ n j) by
    (trivial; apply same_kept; now apply qscore_ok).
  destruct (zero _) eqn:Z.
  - rewrite (zero_ok _ Z), Q2R_0. ring.
  - now rewrite Q2R_qmul, (qtimes_ok _ _ _ (H j)).
Qed.

Lemma qattention_ok n how hs z y i :
  same_stream z y -> same (qattention n how hs z i) (attention n how hs y i).
Proof.
  intros H d. unfold qattention. cbv zeta.
  induction hs as [|h hs IH]; cbn [attention map fold_right]; [apply H|].
  now rewrite Q2R_qadd, IH, (qattend_ok n how h z y i H d).
Qed.

Lemma qactivate_ok f a : activate f (Q2R a) = Q2R (qactivate f a).
Proof.
  destruct f; cbn [activate qactivate]; trivial. unfold qmax. destruct (Qle_bool 0 a) eqn:E.
  - apply qle_ok in E. rewrite Q2R_0 in E. now apply Rmax_right.
  - rewrite Q2R_0. apply Rmax_left. assert (L : qlt a 0 = true) by (unfold qlt; now rewrite E).
    apply qlt_iff in L. rewrite Q2R_0 in L. lra.
Qed.

Lemma qfeed_ok f v w : same v w -> same (qfeed f v) (feed f w).
Proof.
  intros H d. unfold feed, qfeed. cbv zeta. rewrite !Q2R_qadd, H, (qdense_ok (b2 f) d).
  do 2 f_equal. apply qtimes_ok. apply same_kept. intros u.
  now rewrite (qtimes_ok _ _ _ H u), (qdense_ok (b1 f) u), <- Q2R_qadd, qactivate_ok.
Qed.

Lemma qrun_block_ok n w b z y : same_stream z y -> same_stream (qrun_block n w b z) (run_block n b y).
Proof.
  intros H i. unfold qrun_block. rewrite kept_ok. apply same_kept, qfeed_ok, same_kept.
  now apply qattention_ok.
Qed.

Theorem qrun_ok w T x : run T (map Q2R x) = map Q2R (qrun w T x).
Proof.
  unfold run, qrun. cbv zeta. rewrite map_map. apply map_ext. intros r.
  assert (E : same_stream (kept (tokens T) (fun i => kept w (qembed T x i))) (embed T (map Q2R x))).
  { intros i. rewrite kept_ok. apply same_kept. intros d. unfold embed, qembed.
    rewrite Q2R_qadd, (qdense_ok _ d). f_equal.
    destruct (Nat.eqb _ _); [symmetry; apply qlinear_ok|now rewrite Q2R_0]. }
  revert E. generalize (kept (tokens T) (fun i => kept w (qembed T x i))) as z.
  generalize (embed T (map Q2R x)) as y.
  induction (blocks T) as [|b bs IH]; intros y z E; cbn [fold_left].
  - unfold read, qread. rewrite Q2R_qadd. f_equal. apply qsum_ok. intros i _. now apply qrow_ok.
  - apply IH. now apply qrun_block_ok.
Qed.

(** The output at a point: the numbers of a computation are those of the semantics. *)
Corollary output_at w T x y : qrun w T x = y -> run T (map Q2R x) = map Q2R y.
Proof. intros <-. apply qrun_ok. Qed.
