(** Programs: layers and stages in one order, and the theorem that following all states is a proof. *)

From Coq Require Import Arith NArith QArith String Bool List Lia.
From Exactformer Require Import HardAttention Rasp Inputs Tallies States.
Import ListNotations.
Open Scope Q_scope.

(** ** The order of the steps *)

(** How the layers of a model and the stages of a program are taken together. *)
Inductive step :=
  | Values                                   (* a stage that does not select *)
  | Selection                                (* a stage that selects, and no head *)
  | Heads (groups : list (nat * bool))       (* so many heads of a layer, with or without a stage *)
  | Relus.                                   (* a feed-forward layer *)

Fixpoint plan_heads (groups : list (nat * bool)) (hs : list head) (st : list (list node))
    : option (list phase * list (list node)) :=
  match groups with
  | [] => match hs with [] => Some ([], st) | _ => None end
  | (n, false) :: rest =>
      option_map (fun found => (Gather (firstn n hs) [] :: fst found, snd found))
        (plan_heads rest (skipn n hs) st)
  | (n, true) :: rest =>
      match st with
      | ns :: st =>
          if forallb selecting ns then
            option_map (fun found => (Gather (firstn n hs) ns :: fst found, snd found))
              (plan_heads rest (skipn n hs) st)
          else None
      | [] => None
      end
  end.

Fixpoint plan (steps : list step) (ls : list layer) (st : list (list node)) : option (list phase) :=
  match steps with
  | [] => match ls, st with [], [] => Some [] | _, _ => None end
  | Values :: rest =>
      match st with
      | ns :: st =>
          if existsb selecting ns then None else option_map (cons (Compute ns)) (plan rest ls st)
      | [] => None
      end
  | Selection :: rest =>
      match st with
      | ns :: st =>
          if forallb selecting ns then option_map (cons (Gather [] ns)) (plan rest ls st) else None
      | [] => None
      end
  | Heads groups :: rest =>
      match ls with
      | Attention hs :: ls =>
          match plan_heads groups hs st with
          | Some (phs, st) => option_map (fun more => phs ++ Settle :: more) (plan rest ls st)
          | None => None
          end
      | _ => None
      end
  | Relus :: rest =>
      match ls with
      | FeedForward f :: ls => option_map (cons (Units f)) (plan rest ls st)
      | _ => None
      end
  end.

Lemma plan_heads_sound groups hs st phs st' :
  plan_heads groups hs st = Some (phs, st') -> forallb sound_phase phs = true.
Proof.
  revert hs st phs; induction groups as [|[n [|]] groups IH]; intros hs st phs; cbn [plan_heads].
  - destruct hs; [|easy]. intros E. now injection E as <- <-.
  - destruct st as [|ns st]; [easy|]. destruct (forallb selecting ns) eqn:S; [|easy].
    destruct (plan_heads groups _ _) as [[more left]|] eqn:P; [|easy]. intros E. injection E as <- <-.
    cbn [forallb sound_phase fst]. rewrite S. eapply IH; eauto.
  - destruct (plan_heads groups _ _) as [[more left]|] eqn:P; [|easy]. intros E. injection E as <- <-.
    cbn [forallb sound_phase fst]. eapply IH; eauto.
Qed.

Lemma plan_sound steps ls st phs : plan steps ls st = Some phs -> forallb sound_phase phs = true.
Proof.
  revert ls st phs; induction steps as [|[| |groups|] steps IH]; intros ls st phs; cbn [plan].
  - destruct ls; [|easy]. destruct st; [|easy]. intros E. now injection E as <-.
  - destruct st as [|ns st]; [easy|]. destruct (existsb _ _); [easy|].
    destruct (plan steps ls st) eqn:P; [|easy]. intros E. injection E as <-. cbn [forallb sound_phase].
    eapply IH; eauto.
  - destruct st as [|ns st]; [easy|]. destruct (forallb selecting ns) eqn:S; [|easy].
    destruct (plan steps ls st) eqn:P; [|easy]. intros E. injection E as <-. cbn [forallb sound_phase].
    rewrite S. eapply IH; eauto.
  - destruct ls as [|[hs|f] ls]; try easy. destruct (plan_heads groups hs st) as [[gs st']|] eqn:G; [|easy].
    destruct (plan steps ls st') eqn:P; [|easy]. intros E. injection E as <-.
    rewrite forallb_app, (plan_heads_sound _ _ _ _ _ G). cbn [forallb sound_phase andb]. eapply IH; eauto.
  - destruct ls as [|[hs|f] ls]; try easy.
    destruct (plan steps ls st) eqn:P; [|easy]. intros E. injection E as <-. cbn [forallb sound_phase].
    eapply IH; eauto.
Qed.

(** ** Phases are the layers of the model and the stages of the program *)

Lemma same_list {X} (l m : list X) :
  length l = length m ->
  (forall i x y, nth_error l i = Some x -> nth_error m i = Some y -> x = y) -> l = m.
Proof.
  revert m; induction l as [|x l IH]; intros [|y m] L H; cbn [length] in L; try lia; trivial.
  f_equal; [now apply (H 0%nat)|]. apply IH; [lia|]. intros i u v U V. now apply (H (S i)).
Qed.

Lemma all_numbered {X Y} (f : nat -> X -> option Y) k l m :
  all (numbered_from f k l) = Some m ->
  length m = length l /\
  forall i x y, nth_error l i = Some x -> nth_error m i = Some y -> f (k + i)%nat x = Some y.
Proof.
  revert k m; induction l as [|x l IH]; intros k m; cbn [numbered_from all].
  - intros E. injection E as <-. split; trivial. intros i. now destruct i.
  - destruct (f k x) as [y|] eqn:F; [|easy]. destruct (all (numbered_from f (S k) l)) as [rest|] eqn:A; [|easy].
    cbn [option_map]. intros E. injection E as <-. destruct (IH _ _ A) as (L & H). cbn [length].
    split; [lia|]. intros [|i] u v; cbn [nth_error].
    + intros U V. injection U as <-. injection V as <-. now rewrite Nat.add_0_r.
    + intros U V. rewrite Nat.add_succ_r. now apply (H i).
Qed.

Lemma numbered_error {X Y} (f : nat -> X -> Y) l i y :
  nth_error (numbered f l) i = Some y -> exists x, nth_error l i = Some x /\ y = f i x.
Proof.
  unfold numbered. enough (G : forall k, nth_error (numbered_from f k l) i = Some y ->
    exists x, nth_error l i = Some x /\ y = f (k + i)%nat x) by (apply (G 0%nat)).
  revert i; induction l as [|x l IH]; intros i k; destruct i as [|i]; cbn [numbered_from nth_error]; try easy.
  - intros E. injection E as <-. exists x. now rewrite Nat.add_0_r.
  - intros E. rewrite Nat.add_succ_r. now apply (IH i (S k)).
Qed.

Lemma numbered_count {X Y} (f : nat -> X -> Y) l : length (numbered f l) = length l.
Proof.
  unfold numbered. generalize 0%nat. induction l as [|x l IH]; intros k; cbn; trivial. now rewrite IH.
Qed.

(** *** Vectors *)

Definition moved (causal : bool) (hs : list head) (ps ps' : list local) : Prop :=
  length ps' = length ps /\
  forall i s s', nth_error ps i = Some s -> nth_error ps' i = Some s' ->
    now s' = now s /\ next s' = sum_heads hs (now s) (seen causal (map now ps) i) (next s).

Lemma seen_map {X Y} (f : X -> Y) causal l i : seen causal (map f l) i = map f (seen causal l i).
Proof. unfold seen. destruct causal; trivial. apply firstn_map. Qed.

Lemma with_values_vectors s y vs s' : with_values s y vs = Some s' -> now s' = now s /\ next s' = y.
Proof.
  unfold with_values. destruct (known s).
  - destruct vs; [|easy]. cbn [option_map]. intros E. now injection E as <-.
  - intros E. now injection E as <-.
Qed.

Lemma gather_moved causal hs ns ps ps' : act causal (Gather hs ns) ps = Some ps' -> moved causal hs ps ps'.
Proof.
  cbn [act]. unfold numbered. intros A. apply all_numbered in A as (L & H). split; trivial.
  intros i s s' S S'. specialize (H i s s' S S'). cbn [Nat.add] in H.
  apply with_values_vectors in H as (N & Y). now rewrite seen_map.
Qed.

Lemma moved_now causal hs ps ps' : moved causal hs ps ps' -> map now ps' = map now ps.
Proof.
  intros (L & H). apply same_list; [now rewrite !map_length|]. intros i x y X Y.
  rewrite nth_error_map in X, Y. destruct (nth_error ps' i) as [s'|] eqn:S'; [|easy].
  destruct (nth_error ps i) as [s|] eqn:S; [|easy]. injection X as <-. injection Y as <-.
  now apply (H i).
Qed.

Lemma moved_more causal hs hs' ps ps' ps'' :
  moved causal hs ps ps' -> moved causal hs' ps' ps'' -> moved causal (hs ++ hs') ps ps''.
Proof.
  intros M M'. pose proof (moved_now _ _ _ _ M) as E. destruct M as (L & H), M' as (L' & H').
  split; [lia|]. intros i s s'' S S''. destruct (nth_error ps' i) as [s'|] eqn:S'.
  - destruct (H i s s' S S') as (N & Y). destruct (H' i s' s'' S' S'') as (N' & Y').
    split; [congruence|]. rewrite Y', Y, N, E. unfold sum_heads. now rewrite fold_left_app.
  - exfalso. apply nth_error_None in S'. assert (I : (i < length ps)%nat); [|lia].
    apply nth_error_Some. congruence.
Qed.

Lemma moved_none causal ps : moved causal [] ps ps.
Proof. split; trivial. intros i s s' S S'. rewrite S in S'. injection S' as <-. now split. Qed.

Definition settled (ps : list local) : Prop := forall s, In s ps -> next s = now s.

Lemma moved_layer causal hs ps ps' :
  settled ps -> moved causal hs ps ps' ->
  map now (map settle ps') = run_layer causal (map now ps) (Attention hs).
Proof.
  intros T (L & H). cbn [run_layer]. apply same_list.
  - now rewrite numbered_count, !map_length.
  - intros i x y X Y. rewrite map_map, nth_error_map in X. destruct (nth_error ps' i) as [s'|] eqn:S'; [|easy].
    injection X as <-. apply numbered_error in Y as (z & Z & ->). rewrite nth_error_map in Z.
    destruct (nth_error ps i) as [s|] eqn:S; [|easy]. injection Z as <-.
    destruct (H i s s' S S') as (_ & E). cbn [settle now]. rewrite E, (T s (nth_error_In _ _ S)).
    reflexivity.
Qed.

(** *** Rows *)

(** The beginning token, where there is one, comes first. *)
Definition shaped (pre : nat) (ps : list local) : Prop :=
  Forall (fun s => known s = None) (firstn pre ps) /\ Forall (fun s => known s <> None) (skipn pre ps) /\
  (pre <= length ps)%nat.

Lemma rows_none l : Forall (fun s => known s = None) l -> rows_of l = [].
Proof. induction 1 as [|s l N H IH]; cbn [rows_of flat_map]; trivial. rewrite N. exact IH. Qed.

Lemma rows_app l m : rows_of (l ++ m) = rows_of l ++ rows_of m.
Proof. apply flat_map_app. Qed.

Lemma rows_firstn n l :
  Forall (fun s => known s <> None) l -> rows_of (firstn n l) = firstn n (rows_of l).
Proof.
  intros H. revert n. induction H as [|s l N H IH]; intros [|n]; cbn [firstn rows_of flat_map]; trivial.
  destruct (known s) as [r|]; [|easy]. cbn [app firstn]. f_equal. apply IH.
Qed.

Lemma numbered_app {X Y} (f : nat -> X -> Y) k l m :
  numbered_from f k (l ++ m) = numbered_from f k l ++ numbered_from f (k + length l) m.
Proof.
  revert k; induction l as [|x l IH]; intros k; cbn [app numbered_from length]; [now rewrite Nat.add_0_r|].
  now rewrite IH, Nat.add_succ_r.
Qed.

Lemma all_app {X} (l m : list (option X)) found :
  all (l ++ m) = Some found -> exists a b, all l = Some a /\ all m = Some b /\ found = a ++ b.
Proof.
  revert found; induction l as [|[x|] l IH]; intros found; cbn [app all].
  - intros E. now exists [], found.
  - destruct (all (l ++ m)) as [rest|]; [|easy]. cbn [option_map]. intros E. injection E as <-.
    destruct (IH rest eq_refl) as (a & b & A & B & ->). rewrite A. now exists (x :: a), b.
  - easy.
Qed.

Lemma gather_rows hs ns (sight : nat -> list local) (rows : nat -> list row) l l' i j :
  Forall (fun s => known s <> None) l ->
  (forall t, rows_of (sight (i + t)%nat) = rows (j + t)%nat) ->
  all (numbered_from (fun p s => gather hs ns s (sight p)) i l) = Some l' ->
  all (numbered_from (fun p r =>
         option_map (app r) (all (map (fun n => node_value n r (rows p)) ns))) j (rows_of l))
    = Some (rows_of l') /\ Forall (fun s => known s <> None) l'.
Proof.
  intros H. revert l' i j. induction H as [|s l N H IH]; intros l' i j R; cbn [numbered_from all].
  - intros E. injection E as <-. split; trivial.
  - destruct (gather hs ns s (sight i)) as [s'|] eqn:G; [|easy].
    destruct (all (numbered_from _ (S i) l)) as [rest|] eqn:A; [|easy]. cbn [option_map]. intros E.
    injection E as <-. destruct (IH rest (S i) (S j)) as (B & C); trivial.
    { intros t. specialize (R (S t)). now rewrite !Nat.add_succ_r in R. }
    unfold gather, with_values, own_row in G. cbn [rows_of flat_map].
    destruct (known s) as [r|] eqn:K; [|easy]. cbn [app numbered_from all].
    specialize (R 0%nat). rewrite !Nat.add_0_r in R. rewrite R, each_all in G.
    destruct (all (map _ ns)) as [vs|]; [|easy]. cbn [option_map] in G |- *. injection G as <-.
    change (flat_map (fun s : local => match known s with Some r => [r] | None => [] end) l) with (rows_of l).
    rewrite B. split; trivial. constructor; trivial. cbn [known]. easy.
Qed.

Lemma gather_none hs ns (sight : nat -> list local) l l' i :
  Forall (fun s => known s = None) l ->
  all (numbered_from (fun p s => gather hs ns s (sight p)) i l) = Some l' ->
  Forall (fun s => known s = None) l'.
Proof.
  intros H. revert l' i. induction H as [|s l N H IH]; intros l' i; cbn [numbered_from all].
  - intros E. injection E as <-. constructor.
  - unfold gather at 1, with_values. rewrite N.
    destruct (all (numbered_from _ (S i) l)) as [rest|] eqn:A; [|easy]. cbn [option_map]. intros E.
    injection E as <-. constructor; trivial. now apply (IH rest (S i)).
Qed.

Lemma gather_stage causal hs ns pre ps ps' :
  shaped pre ps -> act causal (Gather hs ns) ps = Some ps' ->
  add_stage causal (rows_of ps) ns = Some (rows_of ps') /\ shaped pre ps'.
Proof.
  intros (N & K & L). cbn [act]. unfold add_stage, numbered.
  assert (E : rows_of ps = rows_of (skipn pre ps)).
  { rewrite <- (firstn_skipn pre ps) at 1. rewrite rows_app, (rows_none _ N). reflexivity. }
  assert (Length : length (firstn pre ps) = pre) by (rewrite firstn_length; lia).
  intros A. assert (A' : all (numbered_from (fun i s => gather hs ns s (seen causal ps i)) 0
    (firstn pre ps ++ skipn pre ps)) = Some ps') by (now rewrite firstn_skipn).
  rewrite numbered_app, Length in A'. cbn [Nat.add] in A'. clear A. rename A' into A.
  apply all_app in A as (a & b & A & B & ->).
  pose proof (gather_none _ _ (fun p => seen causal ps p) _ _ _ N A) as NA.
  assert (LA : length a = pre) by (apply all_numbered in A as (LA & _); lia).
  destruct (gather_rows hs ns (fun p => seen causal ps p) (fun p => seen causal (rows_of ps) p)
    (skipn pre ps) b pre 0 K) as (R & KB); trivial.
  { intros t. unfold seen. destruct causal; trivial. rewrite <- (firstn_skipn pre ps) at 1.
    rewrite firstn_app, Length. rewrite firstn_all2 by lia.
    replace (S (pre + t) - pre)%nat with (S t) by lia.
    rewrite rows_app, (rows_none _ N), E, rows_firstn by trivial. reflexivity. }
  rewrite <- E in R. rewrite R, rows_app, (rows_none _ NA). split; trivial. unfold shaped.
  rewrite firstn_app, skipn_app, LA, Nat.sub_diag, firstn_O, skipn_O, app_nil_r, <- LA, firstn_all, skipn_all.
  rewrite app_length. repeat split; trivial. lia.
Qed.

Lemma stage_none causal rows : add_stage causal rows [] = Some rows.
Proof.
  unfold add_stage, numbered. generalize (fun i => seen causal rows i) as f. generalize 0%nat as k.
  cbn [map all option_map]. induction rows as [|r rows IH]; intros k f; cbn [numbered_from all]; trivial.
  rewrite IH by trivial. cbn [option_map]. now rewrite app_nil_r.
Qed.

(** *** Phases *)

Lemma acts_app causal l m ps :
  acts causal (l ++ m) ps = match acts causal l ps with Some qs => acts causal m qs | None => None end.
Proof.
  revert ps; induction l as [|ph l IH]; intros ps; cbn [app acts]; trivial.
  destruct (act causal ph ps); trivial.
Qed.

Lemma groups_ok causal groups hs st phs st' pre ps ps' :
  plan_heads groups hs st = Some (phs, st') -> shaped pre ps -> acts causal phs ps = Some ps' ->
  moved causal hs ps ps' /\ shaped pre ps' /\
  exists done, st = done ++ st' /\ add_stages causal done (rows_of ps) = Some (rows_of ps').
Proof.
  revert hs st phs ps; induction groups as [|[n [|]] groups IH]; intros hs st phs ps; cbn [plan_heads].
  - destruct hs; [|easy]. intros E S A. injection E as <- <-. cbn [acts] in A. injection A as <-.
    split; [apply moved_none|]. split; trivial. exists []. now split.
  - destruct st as [|ns st]; [easy|]. destruct (forallb selecting ns); [|easy].
    destruct (plan_heads groups _ _) as [[more left]|] eqn:P; [|easy]. cbn [option_map fst snd].
    intros E S. injection E as <- <-. cbn [acts].
    destruct (act causal (Gather (firstn n hs) ns) ps) as [qs|] eqn:A; [|easy]. intros B.
    pose proof (gather_moved _ _ _ _ _ A) as M. destruct (gather_stage _ _ _ _ _ _ S A) as (R & T).
    destruct (IH _ _ _ _ P T B) as (M' & T' & more' & -> & R').
    split; [|split; trivial].
    + rewrite <- (firstn_skipn n hs). eapply moved_more; eauto.
    + exists (ns :: more'). split; trivial. cbn [add_stages]. now rewrite R.
  - destruct (plan_heads groups _ _) as [[more left]|] eqn:P; [|easy]. cbn [option_map fst snd].
    intros E S. injection E as <- <-. cbn [acts].
    destruct (act causal (Gather (firstn n hs) []) ps) as [qs|] eqn:A; [|easy]. intros B.
    pose proof (gather_moved _ _ _ _ _ A) as M. destruct (gather_stage _ _ _ _ _ _ S A) as (R & T).
    rewrite stage_none in R. injection R as R.
    destruct (IH _ _ _ _ P T B) as (M' & T' & more' & -> & R').
    split; [|split; trivial].
    + rewrite <- (firstn_skipn n hs). eapply moved_more; eauto.
    + exists more'. split; trivial. now rewrite R.
Qed.

Lemma stages_app causal a b rows :
  add_stages causal (a ++ b) rows =
  match add_stages causal a rows with Some rows => add_stages causal b rows | None => None end.
Proof.
  revert rows; induction a as [|ns a IH]; intros rows; cbn [app add_stages]; trivial.
  destruct (add_stage causal rows ns); trivial.
Qed.

Lemma kept_rows f ps :
  (forall s, known (f s) = known s) -> rows_of (map f ps) = rows_of ps.
Proof.
  intros H. induction ps as [|s ps IH]; cbn [map rows_of flat_map]; trivial. rewrite H. f_equal. exact IH.
Qed.

Lemma kept_shape f pre ps : (forall s, known (f s) = known s) -> shaped pre ps -> shaped pre (map f ps).
Proof.
  intros H (N & K & L). unfold shaped. rewrite firstn_map, skipn_map, map_length. repeat split; trivial.
  - clear - H N. induction N; cbn [map]; constructor; trivial. now rewrite H.
  - clear - H K. induction K; cbn [map]; constructor; trivial. now rewrite H.
Qed.

Lemma compute_gather causal ns ps :
  existsb selecting ns = false -> act causal (Compute ns) ps = act causal (Gather [] ns) ps.
Proof.
  intros X. cbn [act]. unfold numbered. generalize 0%nat as k. generalize ps at 2 as whole.
  induction ps as [|s ps IH]; intros whole k; cbn [each numbered_from all]; trivial. rewrite (IH whole (S k)).
  assert (E : compute ns s = gather [] ns s (seen causal whole k)).
  { unfold compute, gather. f_equal. clear - X. induction ns as [|n ns IH]; cbn [each]; trivial.
    cbn [existsb] in X. apply orb_false_iff in X as (N & X). rewrite (IH X).
    now destruct n. }
  rewrite E. reflexivity.
Qed.

Lemma moved_settled causal ps ps' : settled ps -> moved causal [] ps ps' -> settled ps'.
Proof.
  intros T (L & H) s' I. apply In_nth_error in I as (i & I).
  destruct (nth_error ps i) as [s|] eqn:S.
  - destruct (H i s s' S I) as (N & Y). rewrite Y, N. cbn. apply T. eapply nth_error_In; eauto.
  - exfalso. apply nth_error_None in S. assert ((i < length ps')%nat); [|lia].
    apply nth_error_Some. congruence.
Qed.

Lemma plan_ok causal steps ls st phs pre ps ps' :
  plan steps ls st = Some phs -> shaped pre ps -> settled ps -> acts causal phs ps = Some ps' ->
  map now ps' = run_layers causal ls (map now ps) /\
  add_stages causal st (rows_of ps) = Some (rows_of ps') /\ shaped pre ps'.
Proof.
  revert ls st phs ps; induction steps as [|[| |groups|] steps IH]; intros ls st phs ps; cbn [plan].
  - destruct ls; [|easy]. destruct st; [|easy]. intros E S T A. injection E as <-. cbn in A. injection A as <-.
    repeat split; trivial; apply S.
  - destruct st as [|ns st]; [easy|]. destruct (existsb selecting ns) eqn:X; [easy|].
    destruct (plan steps ls st) as [more|] eqn:P; [|easy]. intros E S T. injection E as <-. cbn [acts].
    rewrite (compute_gather causal ns ps X). destruct (act causal _ ps) as [qs|] eqn:A; [|easy]. intros B.
    pose proof (gather_moved _ _ _ _ _ A) as M. destruct (gather_stage _ _ _ _ _ _ S A) as (R & S').
    destruct (IH _ _ _ _ P S' (moved_settled _ _ _ T M) B) as (V & W & Z).
    rewrite (moved_now _ _ _ _ M) in V. cbn [add_stages]. rewrite R. exact (conj V (conj W Z)).
  - destruct st as [|ns st]; [easy|]. destruct (forallb selecting ns) eqn:X; [|easy].
    destruct (plan steps ls st) as [more|] eqn:P; [|easy]. intros E S T. injection E as <-. cbn [acts].
    destruct (act causal _ ps) as [qs|] eqn:A; [|easy]. intros B.
    pose proof (gather_moved _ _ _ _ _ A) as M. destruct (gather_stage _ _ _ _ _ _ S A) as (R & S').
    destruct (IH _ _ _ _ P S' (moved_settled _ _ _ T M) B) as (V & W & Z).
    rewrite (moved_now _ _ _ _ M) in V. cbn [add_stages]. rewrite R. exact (conj V (conj W Z)).
  - destruct ls as [|[hs|f] ls]; try easy. destruct (plan_heads groups hs st) as [[gs left]|] eqn:G; [|easy].
    destruct (plan steps ls left) as [more|] eqn:P; [|easy]. intros E S T. injection E as <-.
    rewrite acts_app. destruct (acts causal gs ps) as [qs|] eqn:A; [|easy]. cbn [acts act]. intros B.
    destruct (groups_ok _ _ _ _ _ _ _ _ _ G S A) as (M & S' & done & -> & R).
    assert (K : forall s, known (settle s) = known s) by reflexivity.
    destruct (IH _ _ _ _ P (kept_shape _ _ _ K S')) with (2 := B) as (V & W & Z).
    { intros s I. apply in_map_iff in I as (t & <- & I). reflexivity. }
    rewrite (moved_layer _ _ _ _ T M) in V. rewrite (kept_rows _ _ K) in W.
    rewrite stages_app, R. exact (conj V (conj W Z)).
  - destruct ls as [|[hs|f] ls]; try easy. destruct (plan steps ls st) as [more|] eqn:P; [|easy].
    intros E S T. injection E as <-. cbn [acts act]. intros B.
    assert (K : forall s, known (units f s) = known s) by reflexivity.
    destruct (IH _ _ _ _ P (kept_shape _ _ _ K S)) with (2 := B) as (V & W & Z).
    { intros s I. apply in_map_iff in I as (t & <- & I). reflexivity. }
    rewrite (kept_rows _ _ K) in W. rewrite map_map in V. cbn [run_layers fold_left run_layer].
    rewrite map_map. exact (conj V (conj W Z)).
Qed.

(** ** The whole *)

Definition first_state (T : transformer) (i k : nat) (r : option row) : local :=
  let z := add (nth k (tokens T) []) (nth i (positions T) []) in Local r z z.

Definition offset (T : transformer) : nat := if beginning T then 1 else 0.
Definition opening (T : transformer) : list local :=
  if beginning T then [first_state T 0 (length (tokens T) - 1) None] else [].

Definition states_at (T : transformer) (vocabulary : list value) (i : nat) : list local :=
  flat_map (fun x =>
    match place vocabulary x with
    | Some k => [first_state T (offset T + i) k (Some [x; count i])]
    | None => []
    end) vocabulary.

Definition first_sets (T : transformer) (vocabulary : list value) (m : nat) : list (list local) :=
  map (fun s => [s]) (opening T) ++ map (states_at T vocabulary) (seq 0 m).

Definition ends_right (T : transformer) (how : reading) (P : rasp) (s : local) : bool :=
  match known s with
  | None => true
  | Some r =>
      match decode how (times (readout T) (now s)) with
      | Some v => same v (entry (result P) r)
      | None => false
      end
  end.

Definition right_at limit T vocabulary how P phs (m : nat) : bool :=
  match acts_sets limit (causal T) phs (first_sets T vocabulary m) with
  | Some sets => forallb (forallb (ends_right T how P)) sets
  | None => false
  end.

Definition follow (limit : nat) (steps : list step) T vocabulary (longest : nat) how P : bool :=
  if Bool.eqb (causal T) (looks_back P) then
    match plan steps (layers T) (stages P) with
    | Some phs => none (fun m => negb (right_at limit T vocabulary how P phs m)) (seq 1 longest)
    | None => false
    end
  else false.

Definition first_states (T : transformer) (input : list value) (ids : list nat) : list local :=
  opening T ++ numbered (fun i xk => first_state T (offset T + i) (snd xk) (Some [fst xk; count i]))
                 (combine input ids).

Lemma encode_all vocabulary input :
  (forall x, In x input -> In x vocabulary) ->
  exists ids, encode vocabulary input = Some ids /\ length ids = length input /\
    forall xk, In xk (combine input ids) -> place vocabulary (fst xk) = Some (snd xk).
Proof.
  unfold encode. induction input as [|x input IH]; intros H; cbn [map all].
  - now exists [].
  - destruct IH as (ids & E & L & P); [intros y Y; apply H; now right|].
    assert (F : exists k, place vocabulary x = Some k).
    { specialize (H x (or_introl eq_refl)). clear - H. induction vocabulary as [|v rest IH]; [easy|].
      cbn [place]. destruct (same v x) eqn:SX; [now exists 0%nat|]. destruct H as [->|H].
      - assert (R : same x x = true) by (now apply same_ok). congruence.
      - destruct (IH H) as (k & ->). now exists (S k). }
    destruct F as (k & F). rewrite F, E. exists (k :: ids). cbn [option_map length combine]. repeat split; try lia.
    intros xk [<-|I]; trivial. now apply P.
Qed.

Lemma among_app ps sets qs more :
  among_sets ps sets -> among_sets qs more -> among_sets (ps ++ qs) (sets ++ more).
Proof. apply Forall2_app. Qed.

Lemma first_among T vocabulary input ids :
  (forall x, In x input -> In x vocabulary) -> length ids = length input ->
  (forall xk, In xk (combine input ids) -> place vocabulary (fst xk) = Some (snd xk)) ->
  among_sets (first_states T input ids) (first_sets T vocabulary (length input)).
Proof.
  intros H L P. apply among_app.
  - induction (opening T) as [|s l IH]; cbn [map]; constructor; trivial. now left.
  - unfold numbered. generalize 0%nat as i. revert ids L P. induction input as [|x input IH]; intros [|k ids] L P i;
      cbn [length] in L; try lia; cbn [combine numbered_from length seq map]; constructor.
    + unfold states_at. apply in_flat_map. exists x. split; [apply H; now left|].
      pose proof (P (x, k) (or_introl eq_refl)) as PX. cbn [fst snd] in PX |- *. rewrite PX. now left.
    + apply IH; try lia.
      * intros y Y. apply H. now right.
      * intros xk I. apply P. now right.
Qed.

Lemma first_vectors T input ids :
  length ids = length input ->
  map now (first_states T input ids) =
  numbered (fun i k => add (nth k (tokens T) []) (nth i (positions T) []))
    (if beginning T then (length (tokens T) - 1)%nat :: ids else ids).
Proof.
  intros L. unfold first_states, opening, offset, numbered.
  assert (G : forall j i, map now (numbered_from (fun i xk => first_state T (j + i) (snd xk)
      (Some [fst xk; count i])) i (combine input ids)) =
    numbered_from (fun i k => add (nth k (tokens T) []) (nth i (positions T) [])) (j + i) ids).
  { intros j. revert ids L. induction input as [|x input IH]; intros [|k ids] L i; cbn [length] in L; try lia; trivial.
    cbn [combine numbered_from map fst snd first_state now]. f_equal.
    rewrite <- Nat.add_succ_r. apply IH. lia. }
  destruct (beginning T); cbn [app map].
  - cbn [numbered_from]. f_equal. apply (G 1%nat 0%nat).
  - apply (G 0%nat 0%nat).
Qed.

Lemma first_shape T input ids :
  length ids = length input -> shaped (offset T) (first_states T input ids) /\
  settled (first_states T input ids) /\ rows_of (first_states T input ids) = first_rows input.
Proof.
  intros L.
  assert (F : forall j i, Forall (fun s => known s <> None)
      (numbered_from (fun i xk => first_state T (j + i) (snd xk) (Some [fst xk; count i])) i (combine input ids))).
  { intros j. generalize (combine input ids) as l. induction l as [|xk l IH]; intros i; cbn [numbered_from]; constructor; trivial.
    easy. }
  assert (R : forall j i, rows_of
      (numbered_from (fun i xk => first_state T (j + i) (snd xk) (Some [fst xk; count i])) i (combine input ids)) =
    numbered_from (fun i x => [x; count i]) i input).
  { intros j. revert ids L F. induction input as [|x input IH]; intros [|k ids] L F i; cbn [length] in L; try lia; trivial.
    cbn [combine numbered_from rows_of flat_map fst first_state known app]. f_equal.
    apply IH; [lia|]. intros j' i'. specialize (F j' i'). cbn [combine numbered_from] in F.
    clear - input. generalize (combine input ids) as l. intros l. revert i'.
    induction l as [|xk l IHl]; intros i'; cbn [numbered_from]; constructor; trivial. easy. }
  split; [|split].
  - unfold shaped, first_states, opening, offset, numbered. destruct (beginning T); cbn [firstn skipn app length].
    + repeat split; [constructor; trivial|apply F|lia].
    + repeat split; [constructor|apply F|lia].
  - intros s I. apply in_app_or in I as [I|I].
    + unfold opening in I. destruct (beginning T); [|easy]. destruct I as [<-|[]]. reflexivity.
    + apply In_nth_error in I as (i & I). apply numbered_error in I as (xk & _ & ->). reflexivity.
  - unfold first_states, first_rows, numbered. rewrite rows_app, R. unfold opening.
    now destruct (beginning T).
Qed.

Lemma read_right T how P ps sets :
  among_sets ps sets -> forallb (forallb (ends_right T how P)) sets = true ->
  Forall (fun s => known s <> None) ps ->
  all (map (decode how) (map (times (readout T)) (map now ps))) =
  Some (map (entry (result P)) (rows_of ps)).
Proof.
  intros H. induction H as [|s set ps sets I H IH]; intros E K; cbn [map all]; trivial.
  cbn [forallb] in E. apply andb_true_iff in E as (A & E). inversion K as [|? ? N K']; subst.
  rewrite forallb_forall in A. specialize (A s I). unfold ends_right in A. cbn [rows_of flat_map].
  destruct (known s) as [r|]; [|easy]. destruct (decode how _) as [v|]; [|easy].
  apply same_ok in A. rewrite (IH E K'). cbn [option_map app map]. now rewrite A.
Qed.

Theorem follow_ok limit steps T vocabulary longest how P :
  follow limit steps T vocabulary longest how P = true -> computes T vocabulary longest how P.
Proof.
  unfold follow. destruct (Bool.eqb _ _) eqn:C; [|easy]. apply eqb_prop in C.
  destruct (plan steps (layers T) (stages P)) as [phs|] eqn:Plan; [|easy]. intros F input V L.
  apply (none_ok _ _ (length input)) in F; [|apply in_seq; lia]. apply negb_false_iff in F. unfold right_at in F.
  destruct (acts_sets _ _ _ _) as [sets|] eqn:A; [|easy].
  destruct (encode_all vocabulary input V) as (ids & E & LI & PI).
  destruct (first_shape T input ids LI) as (Shape & Settled & Rows).
  destruct (acts_sets_ok _ _ _ _ _ _ (plan_sound _ _ _ _ Plan) (first_among T vocabulary input ids V LI PI) A)
    as (ps & Acts & Among).
  destruct (plan_ok _ _ _ _ _ _ _ _ Plan Shape Settled Acts) as (Vectors & Stages & (N & K & LP)).
  exists (map (entry (result P)) (rows_of ps)). split.
  - unfold eval. rewrite <- C, <- Rows, Stages. reflexivity.
  - unfold answer. rewrite E. unfold run. rewrite <- (first_vectors T input ids LI), <- Vectors.
    unfold offset in N, K, LP. destruct (beginning T).
    + destruct ps as [|s ps]; [cbn [length] in LP; lia|]. cbn [firstn skipn] in N, K.
      inversion N as [|? ? None' _]; subst. inversion Among as [|? set ? rest _ Among']; subst.
      cbn [forallb] in F. apply andb_true_iff in F as (_ & F). cbn [map tl rows_of flat_map].
      rewrite None'. cbn [app]. exact (read_right T how P ps rest Among' F K).
    + exact (read_right T how P ps sets Among F K).
Qed.

(** ** Inputs one by one where states do not suffice, and there are few *)

Fixpoint inputs_up_to (tokens longest : nat) : N :=
  match longest with
  | O => 0
  | S n => N.of_nat tokens * (1 + inputs_up_to tokens n)
  end%N.

Definition certify (steps : list step) T vocabulary longest how P : verdict :=
  if follow 2000 steps T vocabulary longest how P then Proved
  else if N.leb (inputs_up_to (length vocabulary) longest) 20000
       then compare T vocabulary longest how P
       else NotFollowed.

Theorem certify_ok steps T vocabulary longest how P :
  certify steps T vocabulary longest how P = Proved -> computes T vocabulary longest how P.
Proof.
  unfold certify. destruct (follow _ _ _ _ _ _ _) eqn:F; [intros _; eapply follow_ok; eauto|].
  destruct (N.leb _ _); [apply compare_ok|easy].
Qed.
