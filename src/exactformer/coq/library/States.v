(** Programs: all inputs followed at once.

    The state of a position is its row of values and its vector. For every length and every position
    a finite set holds all states that any input leads to. A stage of the program and the heads that
    compute it are taken together: over the positions that are seen, all combinations of states are
    added up, equal sums merged. So the work grows with the number of states, not of inputs. *)

From Coq Require Import Arith QArith String Bool List Lia.
From Exactformer Require Import HardAttention Rasp Inputs Tallies.
Import ListNotations.
Open Scope Q_scope.

(** ** States of positions, and what layers and stages make of them *)

(** The row of a position, [None] for the beginning token; its vector; and its vector after the
    heads of the layer that is being computed. *)
Record local := Local { known : option row; now : vector; next : vector }.

Definition rows_of (ps : list local) : list row :=
  flat_map (fun s => match known s with Some r => [r] | None => [] end) ps.

(** The steps of the two computations, in an order that takes them together. *)
Inductive phase :=
  | Compute (ns : list node)                    (* nodes that do not select *)
  | Gather (hs : list head) (ns : list node)    (* heads of a layer, and nodes that select *)
  | Settle                                      (* the end of an attention layer *)
  | Units (f : feed_forward).

Definition sum_heads (hs : list head) (z : vector) (zs : list vector) (y : vector) : vector :=
  fold_left (fun sum h => add sum (attend h z zs)) hs y.

Definition with_values (s : local) (y : vector) (vs : option (list value)) : option local :=
  match known s with
  | None => Some (Local None (now s) y)
  | Some r => option_map (fun vs => Local (Some (r ++ vs)) (now s) y) vs
  end.

Definition own_row (s : local) : row := match known s with Some r => r | None => [] end.

Definition compute (ns : list node) (s : local) : option local :=
  with_values s (next s) (each (fun n => node_value n (own_row s) []) ns).

Definition gather (hs : list head) (ns : list node) (s : local) (seen : list local) : option local :=
  with_values s (sum_heads hs (now s) (map now seen) (next s))
    (each (fun n => node_value n (own_row s) (rows_of seen)) ns).

Definition settle (s : local) : local := Local (known s) (next s) (next s).
Definition units (f : feed_forward) (s : local) : local :=
  Local (known s) (feed f (now s)) (feed f (now s)).

Definition act (causal : bool) (ph : phase) (ps : list local) : option (list local) :=
  match ph with
  | Compute ns => each (compute ns) ps
  | Gather hs ns => all (numbered (fun i s => gather hs ns s (seen causal ps i)) ps)
  | Settle => Some (map settle ps)
  | Units f => Some (map (units f) ps)
  end.

Fixpoint acts (causal : bool) (phs : list phase) (ps : list local) : option (list local) :=
  match phs with
  | [] => Some ps
  | ph :: rest => match act causal ph ps with Some ps => acts causal rest ps | None => None end
  end.

(** ** All states at once *)

Definition bundle := (list heap * list tally)%type.
Definition offer := (list (Q * vector) * list (option value))%type.

Definition vector_eqb := list_eqb q_eqb.
Definition bundle_eqb : bundle -> bundle -> bool :=
  pair_eqb (list_eqb (option_eqb (pair_eqb q_eqb (pair_eqb Nat.eqb vector_eqb)))) (list_eqb tally_eqb).
Definition offer_eqb : offer -> offer -> bool :=
  pair_eqb (list_eqb (pair_eqb q_eqb vector_eqb)) (list_eqb (option_eqb same)).
Definition local_eqb (s t : local) : bool :=
  pair_eqb (option_eqb (list_eqb same)) (pair_eqb vector_eqb vector_eqb)
    (known s, (now s, next s)) (known t, (now t, next t)).

Lemma vector_decides : decides vector_eqb.
Proof. apply list_decides, q_decides. Qed.
Lemma bundle_decides : decides bundle_eqb.
Proof.
  apply pair_decides; apply list_decides; [|apply tally_decides].
  apply option_decides, pair_decides; [apply q_decides|].
  apply pair_decides; [apply nat_decides|apply vector_decides].
Qed.
Lemma offer_decides : decides offer_eqb.
Proof.
  apply pair_decides; apply list_decides.
  - apply pair_decides; [apply q_decides|apply vector_decides].
  - apply option_decides, same_decides.
Qed.
Lemma local_decides : decides local_eqb.
Proof.
  intros [k z y] [k' z' y'] E. unfold local_eqb in E; cbn [known now next] in E.
  apply pair_decides in E; [now inversion E| |].
  - apply option_decides, list_decides, same_decides.
  - apply pair_decides; apply vector_decides.
Qed.

Fixpoint zip {X Y Z} (f : X -> Y -> Z) (l : list X) (m : list Y) : list Z :=
  match l, m with
  | x :: l, y :: m => f x y :: zip f l m
  | _, _ => []
  end.

(** A state with its keys and values. *)
Definition prepared (hs : list head) (o : local) : local * list (vector * vector) :=
  (o, map (fun h => (times (key h) (now o), times (HardAttention.value h) (now o))) hs).

(** What a state offers to one that asks. *)
Definition offered (ns : list node) (qs : list vector) (r : option row)
    (o : local * list (vector * vector)) : option offer :=
  let scored := zip (fun q kv => (dot q (fst kv), snd kv)) qs (snd o) in
  match r, known (fst o) with
  | Some r, Some k => option_map (pair scored) (each (fun n => pick n r k) ns)
  | _, _ => Some (scored, map (fun _ => None) ns)
  end.

Definition absorb (b : bundle) (c : offer) : option bundle :=
  option_map (pair (zip take (fst b) (fst c))) (both maybe_count (snd b) (snd c)).

Fixpoint absorb_all (b : bundle) (cs : list offer) : option bundle :=
  match cs with
  | [] => Some b
  | c :: rest => match absorb b c with Some b => absorb_all b rest | None => None end
  end.

Fixpoint spread (limit : nat) (bs : list bundle) (options : list (list offer))
    : option (list bundle) :=
  match options with
  | [] => Some bs
  | cs :: rest =>
      match each (fun b => each (absorb b) cs) bs with
      | Some found =>
          let next := distinct bundle_eqb (concat found) in
          if Nat.ltb limit (length next) then None else spread limit next rest
      | None => None
      end
  end.

Definition empty_bundle (hs : list head) (ns : list node) : bundle :=
  (map (fun _ => None) hs, map start ns).

Definition conclude (hs : list head) (ns : list node) (s : local) (b : bundle) : option local :=
  with_values s
    (fold_left (fun sum ha => add sum (write (fst ha) (mixed (snd ha)))) (combine hs (fst b)) (next s))
    (both finish ns (snd b)).

Definition gather_from (limit : nat) (hs : list head) (ns : list node)
    (options : list (list (local * list (vector * vector)))) (s : local) : option (list local) :=
  let qs := map (fun h => asks h (now s)) hs in
  match each (fun set => option_map (distinct offer_eqb) (each (offered ns qs (known s)) set)) options with
  | Some options =>
      match spread limit [empty_bundle hs ns] options with
      | Some bs => option_map (distinct local_eqb) (each (conclude hs ns s) bs)
      | None => None
      end
  | None => None
  end.

Fixpoint replaced {X} (i : nat) (x : X) (l : list X) : list X :=
  match l, i with
  | [], _ => []
  | _ :: rest, O => x :: rest
  | y :: rest, S i => y :: replaced i x rest
  end.

Definition gather_sets (limit : nat) (causal : bool) (hs : list head) (ns : list node)
    (sets : list (list local)) : option (list (list local)) :=
  let ready := map (map (prepared hs)) sets in
  all (numbered (fun i set =>
    option_map (@concat local) (each (fun s =>
      gather_from limit hs ns (replaced i [prepared hs s] (seen causal ready i)) s) set)) sets).

Definition small (limit : nat) (sets : list (list local)) : option (list (list local)) :=
  if forallb (fun set => Nat.leb (length set) limit) sets then Some sets else None.

Definition act_sets (limit : nat) (causal : bool) (ph : phase) (sets : list (list local))
    : option (list (list local)) :=
  match ph with
  | Compute ns => each (each (compute ns)) sets
  | Gather hs ns =>
      match gather_sets limit causal hs ns sets with Some sets => small limit sets | None => None end
  | Settle => Some (map (map settle) sets)
  | Units f => Some (map (map (units f)) sets)
  end.

Fixpoint acts_sets (limit : nat) (causal : bool) (phs : list phase) (sets : list (list local))
    : option (list (list local)) :=
  match phs with
  | [] => Some sets
  | ph :: rest =>
      match act_sets limit causal ph sets with
      | Some sets => acts_sets limit causal rest sets
      | None => None
      end
  end.

(** ** No state is missing *)

Definition among_sets (ps : list local) (sets : list (list local)) : Prop :=
  Forall2 (fun s set => In s set) ps sets.

Lemma spread_ok limit options cs bs b out :
  In b bs -> Forall2 (fun c set => In c set) cs options -> spread limit bs options = Some out ->
  exists b', absorb_all b cs = Some b' /\ In b' out.
Proof.
  intros I H. revert bs b I. induction H as [|c set cs options C H IH]; intros bs b I;
    cbn [spread absorb_all].
  - intros E. injection E as <-. now exists b.
  - destruct (each _ bs) as [found|] eqn:E; [|easy]. cbv zeta. destruct (Nat.ltb _ _); [easy|].
    destruct (each_in _ _ _ b E I) as (bs' & F & J).
    destruct (each_in _ _ _ c F C) as (b' & G & K). rewrite G. apply IH.
    apply distinct_in; [apply bundle_decides|]. apply in_concat. now exists bs'.
Qed.

Lemma zip_map {X A B C} (f : A -> B -> C) (g : X -> A) (h : X -> B) l :
  zip f (map g l) (map h l) = map (fun x => f (g x) (h x)) l.
Proof. induction l as [|x l IH]; cbn [map zip]; trivial. now rewrite IH. Qed.

Lemma combine_map {X Y} (g : X -> Y) l : combine l (map g l) = map (fun x => (x, g x)) l.
Proof. induction l as [|x l IH]; cbn [map combine]; trivial. now rewrite IH. Qed.

Lemma heads_absorbed hs ns z r os cs g ts b :
  each (offered ns (map (fun h => asks h z) hs) r) (map (prepared hs) os) = Some cs ->
  absorb_all (map g hs, ts) cs = Some b ->
  fst b = map (fun h => fold_left take (map (scores h (asks h z)) (map now os)) (g h)) hs.
Proof.
  revert cs g ts; induction os as [|o os IH]; intros cs g ts; cbn [map each].
  - intros E. injection E as <-. cbn [absorb_all]. intros F. injection F as <-. reflexivity.
  - destruct (offered _ _ _ _) as [c|] eqn:O; [|easy]. destruct (each _ _) as [rest|] eqn:E; [|easy].
    intros F. injection F as <-. cbn [absorb_all]. unfold absorb at 1. cbn [fst snd].
    destruct (both _ _ _) as [ts'|]; [|easy]. cbn [option_map].
    assert (S : fst c = map (fun h => scores h (asks h z) (now o)) hs).
    { unfold offered in O. cbv zeta in O. cbn [prepared fst snd] in O. rewrite zip_map in O. cbn [fst snd] in O.
      destruct r as [r|]; [destruct (known o) as [k|]; [destruct (each _ ns); [|easy]|]|];
        injection O as <-; reflexivity. }
    rewrite S, zip_map. intros A. rewrite (IH _ _ _ eq_refl A). reflexivity.
Qed.

Lemma rows_absorbed hs ns qs r os cs hp ts b :
  each (offered ns qs (Some r)) (map (prepared hs) os) = Some cs ->
  absorb_all (hp, ts) cs = Some b -> length ts = length ns ->
  both (fun n t => count_rows n r t (rows_of os)) ns ts = Some (snd b).
Proof.
  revert cs hp ts; induction os as [|o os IH]; intros cs hp ts; cbn [map each].
  - intros E. injection E as <-. cbn [absorb_all]. intros F. injection F as <-. cbn [snd rows_of flat_map].
    intros L. revert ts L. induction ns as [|n ns IHn]; intros [|t ts] L; cbn in L |- *; try easy.
    rewrite IHn by lia. reflexivity.
  - destruct (offered _ _ _ _) as [c|] eqn:O; [|easy]. destruct (each _ _) as [rest|] eqn:E; [|easy].
    intros F. injection F as <-. cbn [absorb_all]. unfold absorb at 1. cbn [fst snd].
    destruct (both maybe_count ts (snd c)) as [ts'|] eqn:B; [|easy]. cbn [option_map]. intros A L.
    assert (L' : length ts' = length ns).
    { rewrite <- L. clear - B. revert ts' B. generalize (snd c) as vs. induction ts as [|t ts IH]; intros [|v vs] ts' B;
        cbn in B; try easy; [now injection B as <-|]. destruct (maybe_count t v); [|easy].
      destruct (both maybe_count ts vs) eqn:E; [|easy]. injection B as <-. cbn. now rewrite (IH _ _ E). }
    specialize (IH _ _ _ eq_refl A L'). unfold offered in O. cbv zeta in O. cbn [prepared fst] in O.
    cbn [rows_of flat_map]. destruct (known o) as [k|].
    + destruct (each _ ns) as [vs|] eqn:V; [|easy]. injection O as <-. cbn [snd] in B.
      fold (rows_of os). cbn [app]. clear - V B IH. revert ts vs ts' V B IH. generalize (snd b) as out.
      induction ns as [|n ns IHn]; intros out ts vs ts' V B R; cbn [each] in V.
      * injection V as <-. destruct ts; [|easy]. cbn in B. injection B as <-. exact R.
      * destruct (pick n r k) as [v|] eqn:P; [|easy]. destruct (each _ ns) as [ws|] eqn:W; [|easy].
        injection V as <-. destruct ts as [|t ts]; [easy|]. cbn [both] in B.
        destruct (maybe_count t v) as [t'|] eqn:M; [|easy]. destruct (both maybe_count ts ws) as [us|] eqn:U; [|easy].
        injection B as <-. cbn [both] in R |- *.
        assert (CR : count_rows n r t (k :: rows_of os) = count_rows n r t' (rows_of os))
          by (cbn [count_rows]; now rewrite P, M).
        rewrite CR. destruct (count_rows n r t' (rows_of os)) as [w|]; [|easy].
        destruct (both _ ns us) as [ws'|] eqn:X; [|easy]. injection R as <-.
        now rewrite (IHn _ _ _ _ eq_refl U X).
    + injection O as <-. cbn [snd] in B. cbn [app]. fold (rows_of os).
      assert (S : ts' = ts); [|now subst].
      clear - B L. revert ts ts' B L. induction ns as [|n ns IHn]; intros [|t ts] ts' B L; cbn in B, L; try easy.
      * now injection B as <-.
      * destruct (both maybe_count ts (map _ ns)) as [us|] eqn:U; [|easy]. injection B as <-.
        now rewrite (IHn ts us U) by lia.
Qed.

Lemma finished ns r rows ts vs :
  forallb selecting ns = true ->
  both (fun n t => count_rows n r t rows) ns (map start ns) = Some ts -> both finish ns ts = Some vs ->
  each (fun n => node_value n r rows) ns = Some vs.
Proof.
  revert ts vs; induction ns as [|n ns IH]; intros ts vs S; cbn [map both each].
  - intros E. injection E as <-. cbn. intros F. now injection F as <-.
  - cbn [forallb] in S. apply andb_true_iff in S as (N & S).
    destruct (count_rows n r (start n) rows) as [t|] eqn:C; [|easy].
    destruct (both _ ns _) as [rest|] eqn:B; [|easy]. intros E. injection E as <-. cbn [both].
    destruct (finish n t) as [v|] eqn:F; [|easy]. destruct (both finish ns rest) as [ws|] eqn:W; [|easy].
    intros E. injection E as <-. rewrite (finish_ok n r rows t v N C F), (IH rest ws S eq_refl W).
    reflexivity.
Qed.

Lemma gather_from_ok limit hs ns options s os out :
  forallb selecting ns = true -> os <> [] ->
  Forall2 (fun o set => In o set) (map (prepared hs) os) options ->
  gather_from limit hs ns options s = Some out ->
  exists s', gather hs ns s os = Some s' /\ In s' out.
Proof.
  intros S N H. unfold gather_from. cbv zeta.
  destruct (each _ options) as [sets|] eqn:E; [|easy].
  assert (C : exists cs, each (offered ns (map (fun h => asks h (now s)) hs) (known s)) (map (prepared hs) os) = Some cs
    /\ Forall2 (fun c set => In c set) cs sets).
  { clear N. revert sets E. generalize dependent options. generalize (map (prepared hs) os) as ps.
    induction ps as [|p ps IH]; intros options H sets E; inversion H as [|? set ? rest I H']; subst; cbn [each] in E |- *.
    - injection E as <-. exists []. split; trivial.
    - destruct (each _ set) as [cs|] eqn:F; [|easy]. cbn [option_map] in E.
      destruct (each _ rest) as [more|] eqn:G; [|easy]. injection E as <-.
      destruct (each_in _ _ _ p F I) as (c & O & J). rewrite O.
      destruct (IH rest H' more G) as (ds & D & K). rewrite D. exists (c :: ds). split; trivial.
      constructor; trivial. apply distinct_in; trivial. apply offer_decides. }
  destruct C as (cs & C & K). destruct (spread _ _ _) as [bs|] eqn:P; [|easy].
  destruct (spread_ok limit sets cs [empty_bundle hs ns] (empty_bundle hs ns) bs) as (b & A & I);
    [now left|exact K|exact P|].
  destruct (each (conclude hs ns s) bs) as [found|] eqn:D; [|easy]. cbn [option_map]. intros O. injection O as <-.
  destruct (each_in _ _ _ b D I) as (s' & L & J). exists s'.
  split; [|apply distinct_in; trivial; apply local_decides].
  rewrite <- L. unfold gather, conclude, empty_bundle in *.
  rewrite (heads_absorbed _ _ _ _ _ _ _ _ _ C A), combine_map.
  assert (Y : sum_heads hs (now s) (map now os) (next s) =
    fold_left (fun sum ha => add sum (write (fst ha) (mixed (snd ha))))
      (map (fun h => (h, fold_left take (map (scores h (asks h (now s))) (map now os)) None)) hs) (next s)).
  { unfold sum_heads. assert (M : map now os <> []) by (now destruct os). clear - M. generalize (next s) as y.
    induction hs as [|h hs IH]; intros y; cbn [map fold_left fst snd]; trivial.
    rewrite <- (attend_take h (now s) (map now os) M). apply IH. }
  rewrite <- Y. unfold with_values in *. destruct (known s) as [r|] eqn:R; trivial.
  destruct (both finish ns (snd b)) as [vs|] eqn:F; [|easy]. unfold own_row. rewrite R.
  rewrite (finished ns r (rows_of os) (snd b) vs S) by
    (trivial; eapply rows_absorbed; eauto; apply map_length).
  reflexivity.
Qed.

Lemma forall2_nth {X Y} (R : X -> Y -> Prop) l m i x :
  Forall2 R l m -> nth_error l i = Some x -> exists y, nth_error m i = Some y /\ R x y.
Proof.
  intros H. revert i. induction H as [|a b l m E H IH]; intros [|i]; cbn [nth_error]; try easy.
  - intros F. injection F as <-. now exists b.
  - apply IH.
Qed.

Lemma forall2_replaced {X Y} (R : X -> Y -> Prop) l m i x y :
  Forall2 R l m -> nth_error l i = Some x -> R x y -> Forall2 R l (replaced i y m).
Proof.
  intros H. revert i. induction H as [|a b l m E H IH]; intros [|i]; cbn [nth_error replaced]; try easy.
  - intros F G. injection F as <-. now constructor.
  - intros F G. constructor; trivial. now apply IH.
Qed.

Lemma forall2_seen {X Y} (R : X -> Y -> Prop) causal l m i :
  Forall2 R l m -> Forall2 R (seen causal l i) (seen causal m i).
Proof.
  intros H. unfold seen. destruct causal; trivial. revert H. generalize (S i) as n. intros n H.
  revert n. induction H; intros [|n]; cbn [firstn]; constructor; trivial.
Qed.

Lemma seen_nth {X} causal (l : list X) i x :
  nth_error l i = Some x -> nth_error (seen causal l i) i = Some x /\ seen causal l i <> [].
Proof.
  intros E. unfold seen. destruct causal.
  - revert i E. induction l as [|a l IH]; intros [|i] E; cbn in E |- *; try easy.
    split; [|easy]. apply (IH i E).
  - split; trivial. now destruct l; [destruct i|].
Qed.

Lemma numbered_sets (f : nat -> local -> option local) (g : nat -> list local -> option (list local))
    ps sets sets' :
  among_sets ps sets ->
  (forall i s set out, nth_error ps i = Some s -> In s set -> nth_error sets i = Some set ->
     g i set = Some out -> exists s', f i s = Some s' /\ In s' out) ->
  all (numbered g sets) = Some sets' ->
  exists ps', all (numbered f ps) = Some ps' /\ among_sets ps' sets'.
Proof.
  intros H. unfold numbered.
  assert (G : forall k, (forall i s set out, nth_error ps i = Some s -> In s set -> nth_error sets i = Some set ->
     g (k + i)%nat set = Some out -> exists s', f (k + i)%nat s = Some s' /\ In s' out) ->
    all (numbered_from g k sets) = Some sets' ->
    exists ps', all (numbered_from f k ps) = Some ps' /\ among_sets ps' sets').
  { revert sets'. induction H as [|s set ps sets I H IH]; intros sets' k K; cbn [numbered_from all].
    - intros E. injection E as <-. exists []. split; trivial. constructor.
    - destruct (g k set) as [out|] eqn:G; [|easy]. destruct (all (numbered_from g (S k) sets)) as [rest|] eqn:A; [|easy].
      cbn [option_map]. intros E. injection E as <-.
      destruct (K 0%nat s set out eq_refl I eq_refl) as (s' & F & J); [now rewrite Nat.add_0_r|].
      rewrite Nat.add_0_r in F. rewrite F.
      destruct (IH rest (S k)) as (ps' & P & Q'); trivial.
      + intros i t u o T U N O. rewrite Nat.add_succ_l, <- Nat.add_succ_r in O |- *. eapply K; eauto.
      + rewrite P. exists (s' :: ps'). split; trivial. now constructor. }
  intros K. apply (G 0%nat). exact K.
Qed.

Lemma each_sets (f : local -> option local) ps sets sets' :
  among_sets ps sets -> each (each f) sets = Some sets' ->
  exists ps', each f ps = Some ps' /\ among_sets ps' sets'.
Proof.
  intros H. revert sets'. induction H as [|s set ps sets I H IH]; intros sets'; cbn [each].
  - intros E. injection E as <-. exists []. split; trivial. constructor.
  - destruct (each f set) as [out|] eqn:O; [|easy]. destruct (each (each f) sets) as [rest|]; [|easy].
    intros E. injection E as <-. destruct (each_in _ _ _ s O I) as (s' & F & J). rewrite F.
    destruct (IH rest eq_refl) as (ps' & P & K). rewrite P. exists (s' :: ps'). split; trivial.
    now constructor.
Qed.

Lemma map_sets (f : local -> local) ps sets :
  among_sets ps sets -> among_sets (map f ps) (map (map f) sets).
Proof. intros H. induction H; cbn [map]; constructor; trivial. now apply in_map. Qed.

Definition sound_phase (ph : phase) : bool :=
  match ph with Gather _ ns => forallb selecting ns | _ => true end.

Lemma act_sets_ok limit causal ph ps sets sets' :
  sound_phase ph = true -> among_sets ps sets -> act_sets limit causal ph sets = Some sets' ->
  exists ps', act causal ph ps = Some ps' /\ among_sets ps' sets'.
Proof.
  intros S H. destruct ph as [ns|hs ns| |f]; cbn [act_sets act sound_phase] in *.
  - now apply each_sets.
  - destruct (gather_sets limit causal hs ns sets) as [found|] eqn:G; [|easy].
    unfold small. destruct (forallb _ found); [|easy]. intros E. injection E as <-.
    unfold gather_sets in G. cbv zeta in G. revert G. apply numbered_sets; trivial.
    intros i s set out P I N. destruct (each _ set) as [outs|] eqn:E; [|easy]. cbn [option_map]. intros O.
    injection O as <-. destruct (each_in _ _ _ s E I) as (found' & F & J).
    destruct (seen_nth causal ps i s P) as (Q' & R).
    destruct (gather_from_ok limit hs ns (replaced i [prepared hs s]
      (seen causal (map (map (prepared hs)) sets) i)) s (seen causal ps i) found' S R) as (s' & A & B).
    + assert (K : Forall2 (fun o set => In o set) (map (prepared hs) (seen causal ps i))
                    (map (map (prepared hs)) (seen causal sets i))).
      { pose proof (forall2_seen _ causal ps sets i H) as T. clear - T.
        induction T; cbn [map]; constructor; trivial. now apply in_map. }
      assert (M : seen causal (map (map (prepared hs)) sets) i = map (map (prepared hs)) (seen causal sets i)).
      { unfold seen. destruct causal; trivial. apply firstn_map. }
      rewrite M. eapply forall2_replaced; [exact K| |now left].
      rewrite nth_error_map, Q'. reflexivity.
    + exact F.
    + exists s'. split; trivial. apply in_concat. now exists found'.
  - intros E. injection E as <-. exists (map settle ps). split; trivial. now apply map_sets.
  - intros E. injection E as <-. exists (map (units f) ps). split; trivial. now apply map_sets.
Qed.

Lemma acts_sets_ok limit causal phs ps sets sets' :
  forallb sound_phase phs = true -> among_sets ps sets -> acts_sets limit causal phs sets = Some sets' ->
  exists ps', acts causal phs ps = Some ps' /\ among_sets ps' sets'.
Proof.
  revert ps sets; induction phs as [|ph phs IH]; intros ps sets S H; cbn [acts_sets acts].
  - intros E. injection E as <-. now exists ps.
  - cbn [forallb] in S. apply andb_true_iff in S as (P & S).
    destruct (act_sets limit causal ph sets) as [mid|] eqn:A; [|easy].
    destruct (act_sets_ok _ _ _ _ _ _ P H A) as (qs & Q' & K). rewrite Q'. now apply IH.
Qed.

