(** What the checker accepts is true. *)

From Coq Require Import Reals QArith Qreals List Bool Lra Lia.
From Exactformer Require Import Semantics Rationals OneVariable Tokens Domains Selection Identity
  Checker.
Import ListNotations.
Open Scope R_scope.

(** ** A strict maximum is selected *)

Lemma argmax_below s n : (0 < n)%nat -> (argmax s n < n)%nat.
Proof.
  induction n as [|n IH]; intros H; [lia|]. simpl.
  destruct (Rlt_dec _ _); [lia|]. destruct n as [|n]; [cbn; lia|].
  specialize (IH ltac:(lia)). lia.
Qed.

Lemma argmax_is s n i :
  (i < n)%nat -> (forall j, (j < n)%nat -> j <> i -> s j < s i) -> argmax s n = i.
Proof.
  induction n as [|n IH]; intros Hi H; [lia|]. cbn [argmax].
  destruct (Nat.eq_dec i n) as [->|Hne].
  - destruct (Rlt_dec _ _) as [|Hlt]; trivial.
    destruct (Nat.eq_dec (argmax s n) n) as [E|E]; trivial.
    exfalso. apply Hlt, H; trivial.
    destruct n as [|n]; [now elim E|]. pose proof (argmax_below s (S n)). lia.
  - rewrite IH; [|lia|intros; apply H; lia].
    destruct (Rlt_dec _ _) as [Hlt|]; trivial.
    specialize (H n ltac:(lia) ltac:(lia)). lra.
Qed.

Lemma count_none s m n : (forall j, (j < n)%nat -> s j <> m) -> count s m n = 0%nat.
Proof.
  induction n as [|n IH]; intros H; cbn [count]; trivial.
  destruct (Req_EM_T (s n) m) as [E|_]; [now elim (H n (Nat.lt_succ_diag_r n))|].
  apply IH. intros j Hj. apply H. lia.
Qed.

Lemma count_one s n i :
  (i < n)%nat -> (forall j, (j < n)%nat -> j <> i -> s j <> s i) -> count s (s i) n = 1%nat.
Proof.
  induction n as [|n IH]; intros Hi H; [lia|]. cbn [count].
  destruct (Nat.eq_dec i n) as [->|N].
  - destruct (Req_EM_T (s n) (s n)) as [_|E]; [|now elim E].
    f_equal. apply count_none. intros j Hj. apply H; lia.
  - destruct (Req_EM_T (s n) (s i)) as [E|_]; [now elim (H n ltac:(lia) ltac:(lia))|].
    apply IH; [lia|]. intros j Hj. apply H. lia.
Qed.

Definition chosen_weight (how : rule) (s : R) : R := match how with OneHotMax => s | HardMax => 1 end.

Lemma attend_self n how h z i d :
  (i < n)%nat -> (forall j, (j < n)%nat -> j <> i -> score h z i j < score h z i i) ->
  attend n how h z i d = chosen_weight how (score h z i i) * times (value h) (z i) d.
Proof.
  intros Hi H. unfold attend. pose proof (argmax_is (score h z i) n i Hi H) as E.
  rewrite (sum_single _ n i Hi).
  - f_equal. unfold weight. rewrite E. destruct how; cbn [chosen_weight]; [now rewrite Nat.eqb_refl|].
    destruct (Req_EM_T _ _) as [_|N]; [|now elim N].
    rewrite count_one; trivial; [simpl; field|]. intros j Hj N. specialize (H j Hj N). lra.
  - intros j Hj N. specialize (H j Hj N). unfold weight. rewrite E. destruct how.
    + apply Nat.eqb_neq in N. rewrite N. ring.
    + destruct (Req_EM_T _ _); [lra|ring].
Qed.

(** ** Attention *)

Lemma tval_map_mul w z t k :
  tval (map (fun e => (fst e, pmul w (snd e))) z) t k = peval w t * tval z t k.
Proof.
  induction z as [|[j p] z IH]; cbn [map tval fst snd]; [ring|].
  rewrite IH, peval_mul. destruct (Pos.eqb j k); ring.
Qed.

Lemma heads_settled D k hs A :
  heads_problem D k (map prepare hs) A = None ->
  forall h, In h hs -> none (unselected D (prepare h) A) = true.
Proof.
  revert k; induction hs as [|h hs IH]; intros k H g I; [now elim I|].
  cbn [map heads_problem] in H. destruct (unselected D (prepare h) A) eqn:E; [discriminate|].
  destruct I as [<-|I]; [now rewrite E|]. exact (IH _ H g I).
Qed.

Lemma attention_ok D x A z how hs i :
  inside D x -> follows D x A z ->
  (forall h, In h hs -> none (unselected D (prepare h) A) = true) -> (i < length A)%nat ->
  rep (entries (attention_token how (map prepare hs) (nth i A nothing)))
    (feature_of D x (nth i A nothing)) (attention (length A) how hs z i).
Proof.
  intros Hx F H Hi. cbn [attention_token entries].
  induction hs as [|h hs IH]; cbn [map fold_right attention].
  - apply (F i Hi).
  - apply rep_tsum; [|apply IH; intros; apply H; now right].
    intros d. rewrite attend_self; trivial.
    + unfold attend_token. cbv zeta. rewrite tval_map_mul. f_equal.
      * rewrite (score_self D x h A z F i Hi). destruct how; cbn [chosen_weight].
        -- reflexivity.
        -- cbn [peval]. rewrite Q2R_1. ring.
      * destruct (F i Hi) as [_ Z]. exact (rep_times (value h) _ _ _ Z d).
    + intros j Hj N. apply (selection_ok D x h A z Hx F i j); trivial. apply H. now left.
Qed.

(** ** Feed-forward *)

Lemma tval_map_activated (f : R -> R) (g : upoly -> upoly) z t k :
  f 0 = 0 -> distinct z = true ->
  (forall e, In e z -> f (peval (snd e) t) = peval (g (snd e)) t) ->
  f (tval z t k) = tval (map (fun e => (fst e, g (snd e))) z) t k.
Proof.
  intros F0. induction z as [|[j p] z IH]; intros Hd H; cbn [map tval fst snd]; trivial.
  cbn [distinct fst] in Hd. destruct (forallb _ z) eqn:N; [|discriminate].
  specialize (IH Hd (fun e I => H e (or_intror I))).
  destruct (Pos.eqb_spec j k) as [->|J]; [|now rewrite !Rplus_0_l].
  assert (A : forall w : token, forallb (fun e' => negb (Pos.eqb k (fst e'))) w = true -> tval w t k = 0).
  { intros w W. apply tval_absent. rewrite forallb_forall in W.
    destruct (existsb _ w) eqn:E; trivial. apply existsb_exists in E as [e [I E]].
    specialize (W e I). rewrite Pos.eqb_sym, E in W. discriminate. }
  rewrite (A z N), <- IH, (A z N), F0, !Rplus_0_r. exact (H (k, p) (or_introl eq_refl)).
Qed.

Lemma feed_ok D x f a v :
  inside D x -> tracks D x a v -> unsettled (prepare_feed f) a = None ->
  tracks D x (feed_token (prepare_feed f) a) (feed f v).
Proof.
  intros Hx [R Z] H. split; [exact R|].
  change (feature_of D x (feed_token (prepare_feed f) a)) with (feature_of D x a).
  pose proof (reach_sound _ _ _ _ Hx R) as B. fold (feature_of D x a) in B.
  set (t := feature_of D x a) in *.
  assert (U : forall u, times (w1 f) v u + dense (b1 f) u = tval (units (prepare_feed f) a) t (place u)).
  { intros u. unfold units. rewrite tval_tsum. cbn [prepare_feed first_bias first].
    rewrite <- (rep_constants (b1 f) t u), <- (rep_times (w1 f) _ _ _ Z u). ring. }
  assert (V : rep (activated (prepare_feed f) a) t
                (fun u => activate (activated_by f) (times (w1 f) v u + dense (b1 f) u))).
  { intros u. rewrite U. unfold activated, unsettled in *. cbn [prepare_feed activation_of] in *.
    destruct (activated_by f); [|reflexivity].
    cbv zeta in H. destruct (distinct (units _ a)) eqn:N; [|discriminate].
    destruct (find _ _) eqn:E in H; [discriminate|]. cbn [activate].
    apply (tval_map_activated (Rmax 0) (fun p => if positive_on (bound a) p then p else []));
      trivial; [apply Rmax_left; lra|].
    intros e I. pose proof (find_none _ _ E e I) as K. apply negb_false_iff in K.
    unfold keeps_sign in K. destruct (positive_on (bound a) (snd e)) eqn:P.
    - apply qle_ok in P. rewrite Q2R_0 in P. pose proof (low_ok (bound a) (snd e) t B).
      apply Rmax_right. lra.
    - apply qle_ok in K. rewrite Q2R_0 in K. pose proof (high_ok (bound a) (snd e) t B).
      cbn [peval]. apply Rmax_left. lra. }
  intros d. cbn [feed_token entries]. rewrite !tval_tsum. unfold feed.
  cbn [prepare_feed second_bias second] in *.
  rewrite <- (rep_constants (b2 f) t d), <- (rep_times (w2 f) _ _ _ V d), (Z d). fold t. ring.
Qed.

Lemma feed_settled f i A k :
  feed_problem f i A = None -> (k < length A)%nat -> unsettled f (nth k A nothing) = None.
Proof.
  revert i k; induction A as [|a A IH]; intros i k H Hk; simpl in *; [lia|].
  destruct (unsettled f a) eqn:E; [discriminate|]. destruct k as [|k]; trivial.
  apply (IH (S i)); trivial. lia.
Qed.

(** ** Blocks *)

Lemma nth_map (f : tracked -> tracked) A i :
  (i < length A)%nat -> nth i (map f A) nothing = f (nth i A nothing).
Proof.
  intros H. rewrite (nth_indep _ _ (f nothing)) by (now rewrite map_length). apply map_nth.
Qed.

Lemma follow_ok D x bs number A z B :
  inside D x -> follows D x A z -> follow D number bs A = inr B ->
  length B = length A /\ follows D x B (fold_left (fun z b => run_block (length A) b z) bs z).
Proof.
  intros Hx. revert number A z; induction bs as [|b bs IH]; intros number A z F H.
  - injection H as <-. auto.
  - cbn [follow] in H. cbv zeta in H.
    destruct (heads_problem D 1 (map prepare (heads b)) A) as [[h j]|] eqn:E; [discriminate|].
    set (f := attention_token _ _) in *.
    destruct (feed_problem _ 1 (map f A)) as [[u j]|] eqn:G; [discriminate|].
    set (A' := map _ (map f A)) in H.
    assert (L : length A' = length A) by (unfold A'; now rewrite !map_length).
    destruct (IH (S number) A' (run_block (length A) b z)) as [L' F'].
    + intros i Hi. rewrite L in Hi. unfold A'. rewrite nth_map by (now rewrite map_length).
      apply feed_ok; trivial.
      * rewrite nth_map by trivial. split; [apply (F i Hi)|].
        exact (attention_ok D x A z (selects_by b) (heads b) i Hx F (heads_settled _ _ _ _ E) Hi).
      * apply (feed_settled _ _ _ i G). now rewrite map_length.
    + exact H.
    + rewrite L in L', F'. split; trivial.
Qed.

(** ** From the embedding to the outputs *)

Lemma start_length bits D feature rows marks :
  length (start bits D feature rows marks) = length rows.
Proof. revert marks; induction rows; intros marks; simpl; auto. Qed.

Lemma nth_start bits D feature rows marks i :
  (i < length rows)%nat ->
  nth i (start bits D feature rows marks) nothing
  = Tracked (nth i rows []) (reach bits D (nth i rows []))
      (tadd (place feature) [qlinear (nth i rows []) (centre D); 1%Q] (constants (nth i marks []))).
Proof.
  revert marks i; induction rows as [|row rows IH]; intros marks i H; simpl in *; [lia|].
  destruct i as [|i]; [now destruct marks|]. rewrite IH by lia.
  destruct marks; trivial. now destruct i.
Qed.

Lemma start_ok bits T D x :
  inside D x ->
  first_failing (fun _ a => reach_ok D (direction a) (bound a)) 0
    (start bits D (feature T) (features T) (constant T)) = None ->
  follows D x (start bits D (feature T) (features T) (constant T)) (embed T x).
Proof.
  intros H K i Hi. split; [exact (first_failing_none _ _ _ nothing i K Hi)|].
  rewrite start_length in Hi. rewrite nth_start by trivial. intros d.
  cbn [entries]. rewrite tval_tadd, <- (rep_constants (nth i (constant T) []) _ d), place_eqb.
  unfold embed. rewrite Rplus_comm. f_equal. destruct (Nat.eqb (feature T) d); trivial.
  rewrite (linear_minus _ x (centre D) (inside_length D x H)).
  unfold feature_of. cbn [peval direction]. autorewrite with q2r. ring.
Qed.

Lemma contributions_ok D x beta A z :
  follows D x A z ->
  ridge_sum (minus x (centre D)) (contributions beta A)
  = sum (fun i => row_times (nth i beta []) (z i)) (length A).
Proof.
  revert beta z; induction A as [|a A IH]; intros beta z F; cbn [contributions ridge_sum length sum]; trivial.
  destruct (F 0%nat) as [_ Z]; [simpl; lia|]. cbn [nth] in Z. cbn [fst snd]. f_equal.
  - rewrite (row_ok _ _ _ _ Z). now destruct beta.
  - rewrite (IH (tl beta) (fun i => z (S i))).
    + apply sum_ext. intros k _. destruct beta; trivial. now destruct k.
    + intros i Hi. apply (F (S i)). simpl; lia.
Qed.

Lemma compare_ok D x A z k outputs targets :
  inside D x -> follows D x A z -> compare (centre D) A k outputs targets = Proved ->
  map (fun r => read (length A) r z) outputs = map (eval x) targets.
Proof.
  intros Hx F. revert k targets; induction outputs as [|[beta b] outputs IH];
    intros k [|e targets] H; cbn [compare map] in *; try discriminate; trivial.
  destruct (equals _ _ _ _) eqn:E; [|discriminate]. f_equal; [|exact (IH _ _ H)].
  apply (equals_ok _ _ _ _ x (inside_length D x Hx)) in E.
  rewrite <- E, (contributions_ok D x beta A z F). reflexivity.
Qed.

(** ** The theorem *)

Lemma sound_with bits T D targets :
  check_with bits T D targets = Proved ->
  forall x : list R, inside D x -> run T x = map (eval x) targets.
Proof.
  unfold check_with. cbv zeta. intros H x Hx. set (A := start _ _ _ _ _) in H.
  destruct (first_failing _ 0 A) eqn:K; [discriminate|].
  pose proof (start_ok bits T D x Hx K) as F. fold A in F.
  destruct (follow D 1 (blocks T) A) as [v|B] eqn:E; [|].
  - subst v. exfalso. revert E. generalize 1%nat at 1 as k. generalize A.
    clear. induction (blocks T) as [|b bs IH]; intros A k H; cbn [follow] in H; [discriminate|].
    cbv zeta in H. destruct (heads_problem _ _ _ _) as [[h i]|]; [discriminate|].
    destruct (feed_problem _ _ _) as [[i u]|]; [discriminate|]. exact (IH _ _ H).
  - destruct (follow_ok D x _ _ _ _ _ Hx F E) as [L G].
    rewrite <- (compare_ok D x _ _ _ _ _ Hx G H). unfold run. cbv zeta.
    assert (N : length A = tokens T) by apply start_length.
    now rewrite L, N.
Qed.

Theorem sound (T : transformer) (D : domain) (targets : list expr) :
  check T D targets = Proved ->
  forall x : list R, inside D x -> run T x = map (eval x) targets.
Proof.
  unfold check. intros H.
  destruct (check_with 8 T D targets) eqn:E; try discriminate;
    [exact (sound_with 8 T D targets E)|exact (sound_with 40 T D targets H)..].
Qed.
