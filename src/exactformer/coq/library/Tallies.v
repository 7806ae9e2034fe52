(** Sums over positions, one position after another: what heads average, what nodes select. *)

From Coq Require Import Arith ZArith QArith String Bool List Lia.
From Exactformer Require Import HardAttention Rasp Inputs.
Import ListNotations.
Open Scope Q_scope.

(** ** Optional results *)

(** f of every element, or none. *)
Fixpoint each {X Y} (f : X -> option Y) (l : list X) : option (list Y) :=
  match l with
  | [] => Some []
  | x :: rest =>
      match f x with
      | Some y => match each f rest with Some ys => Some (y :: ys) | None => None end
      | None => None
      end
  end.

(** f of every pair from two lists of the same length, or none. *)
Fixpoint both {X Y Z} (f : X -> Y -> option Z) (l : list X) (m : list Y) : option (list Z) :=
  match l, m with
  | [], [] => Some []
  | x :: l, y :: m =>
      match f x y with
      | Some z => match both f l m with Some zs => Some (z :: zs) | None => None end
      | None => None
      end
  | _, _ => None
  end.

Lemma each_in {X Y} (f : X -> option Y) l ys x :
  each f l = Some ys -> In x l -> exists y, f x = Some y /\ In y ys.
Proof.
  revert ys; induction l as [|a l IH]; intros ys E I; [easy|]. cbn [each] in E.
  destruct (f a) as [y|] eqn:F; [|easy]. destruct (each f l) as [rest|]; [|easy]. injection E as <-.
  destruct I as [<-|I]; [exists y; split; trivial; now left|].
  destruct (IH rest eq_refl I) as (z & Z & J). exists z. split; trivial. now right.
Qed.

Lemma each_all {X Y} (f : X -> option Y) l : each f l = all (map f l).
Proof.
  induction l as [|x l IH]; cbn [each map all]; trivial. destruct (f x); trivial. rewrite IH.
  now destruct (all (map f l)).
Qed.

(** ** Equal things once *)

Definition decides {X} (e : X -> X -> bool) := forall x y, e x y = true -> x = y.

(** [existsb] and [forallb] that stop where the answer is known. *)
Fixpoint some {X} (f : X -> bool) (l : list X) : bool :=
  match l with [] => false | x :: rest => if f x then true else some f rest end.
Fixpoint none {X} (f : X -> bool) (l : list X) : bool :=
  match l with [] => true | x :: rest => if f x then false else none f rest end.

Lemma some_ok {X} (f : X -> bool) l : some f l = true -> exists x, In x l /\ f x = true.
Proof.
  induction l as [|x l IH]; cbn [some]; [easy|]. destruct (f x) eqn:F.
  - intros _. exists x. split; trivial. now left.
  - intros H. destruct (IH H) as (y & Y & G). exists y. split; trivial. now right.
Qed.
Lemma none_ok {X} (f : X -> bool) l x : none f l = true -> In x l -> f x = false.
Proof.
  induction l as [|y l IH]; cbn [none]; [easy|]. destruct (f y) eqn:F; [easy|].
  intros H [<-|I]; trivial. now apply IH.
Qed.

Fixpoint distinct {X} (e : X -> X -> bool) (l : list X) : list X :=
  match l with
  | [] => []
  | x :: rest => let rest := distinct e rest in if some (e x) rest then rest else x :: rest
  end.

Lemma distinct_in {X} (e : X -> X -> bool) l x : decides e -> In x l -> In x (distinct e l).
Proof.
  intros D. induction l as [|a l IH]; intros I; [easy|]. cbn [distinct]. cbv zeta.
  destruct (some (e a) (distinct e l)) eqn:E.
  - destruct I as [<-|I]; [|now apply IH]. apply some_ok in E as (y & Y & F).
    apply D in F. now subst.
  - destruct I as [<-|I]; [now left|right; now apply IH].
Qed.

Fixpoint list_eqb {X} (e : X -> X -> bool) (l m : list X) : bool :=
  match l, m with
  | [], [] => true
  | x :: l, y :: m => if e x y then list_eqb e l m else false
  | _, _ => false
  end.
Definition pair_eqb {X Y} (e : X -> X -> bool) (f : Y -> Y -> bool) (p q : X * Y) : bool :=
  if e (fst p) (fst q) then f (snd p) (snd q) else false.
Definition option_eqb {X} (e : X -> X -> bool) (p q : option X) : bool :=
  match p, q with Some x, Some y => e x y | None, None => true | _, _ => false end.
Definition q_eqb (p q : Q) : bool :=
  if Z.eqb (Qnum p) (Qnum q) then Pos.eqb (Qden p) (Qden q) else false.

Lemma list_decides {X} (e : X -> X -> bool) : decides e -> decides (list_eqb e).
Proof.
  intros D l; induction l as [|x l IH]; intros [|y m]; cbn; try easy.
  destruct (e x y) eqn:E; [|easy]. intros F. now rewrite (D x y E), (IH m F).
Qed.
Lemma pair_decides {X Y} (e : X -> X -> bool) (f : Y -> Y -> bool) :
  decides e -> decides f -> decides (pair_eqb e f).
Proof.
  intros D E [x y] [u v]. unfold pair_eqb; cbn [fst snd]. destruct (e x u) eqn:F; [|easy].
  intros G. now rewrite (D x u F), (E y v G).
Qed.
Lemma option_decides {X} (e : X -> X -> bool) : decides e -> decides (option_eqb e).
Proof. intros D [x|] [y|]; cbn; try easy. intros E. now rewrite (D x y E). Qed.
Lemma q_decides : decides q_eqb.
Proof.
  intros [n d] [m e]. unfold q_eqb; cbn [Qnum Qden]. destruct (Z.eqb n m) eqn:N; [|easy].
  intros D. apply Z.eqb_eq in N. apply Pos.eqb_eq in D. now subst.
Qed.
Lemma same_decides : decides same.
Proof. intros x y. apply same_ok. Qed.
Lemma nat_decides : decides Nat.eqb.
Proof. intros x y. apply Nat.eqb_eq. Qed.

(** ** What a head adds up: the largest score so far, how often, and the sum of its values *)

Definition heap := option (Q * (nat * vector)).

Definition take (a : heap) (x : Q * vector) : heap :=
  match a with
  | None => Some (fst x, (1%nat, snd x))
  | Some (t, (n, u)) =>
      if Qle_bool (fst x) t then
        if Qeq_bool (fst x) t then Some (t, (S n, add u (snd x))) else a
      else Some (fst x, (1%nat, snd x))
  end.

Definition mixed (a : heap) : vector :=
  match a with
  | None => []
  | Some (_, (n, u)) => map (mult (/ inject_Z (Z.of_nat n))) u
  end.

Lemma larger_left a b : a <= larger a b.
Proof.
  unfold larger. destruct (Qle_bool b a) eqn:E; [apply Qle_refl|].
  destruct (Qlt_le_dec a b) as [L|L]; [now apply Qlt_le_weak|].
  apply Qle_bool_iff in L. congruence.
Qed.
Lemma larger_right a b : b <= larger a b.
Proof.
  unfold larger. destruct (Qle_bool b a) eqn:E; [now apply Qle_bool_iff|apply Qle_refl].
Qed.

Lemma largest_snoc l x : l <> [] -> largest (l ++ [x]) = larger (largest l) x.
Proof. destruct l as [|a l]; [easy|]. intros _. cbn [largest app]. now rewrite fold_left_app. Qed.

Lemma largest_bounds l x : In x l -> x <= largest l.
Proof.
  induction l as [|y l IH] using rev_ind; [easy|]. intros I. destruct l as [|a l].
  - destruct I as [->|[]]. apply Qle_refl.
  - rewrite largest_snoc by easy. apply in_app_or in I as [I|[->|[]]].
    + eapply Qle_trans; [now apply IH|apply larger_left].
    + apply larger_right.
Qed.

Lemma take_all l :
  l <> [] ->
  let top := largest (map fst l) in
  let chosen := filter (fun pair => Qeq_bool (fst pair) top) l in
  fold_left take l None = Some (top, (length chosen, total (map snd chosen))).
Proof.
  induction l as [|[s v] l IH] using rev_ind; [easy|]. intros _. cbv zeta.
  rewrite fold_left_app, map_app, !filter_app, !map_app, !app_length. cbn [fold_left map].
  destruct l as [|p l].
  - cbn [fold_left take map app largest filter fst snd]. rewrite (Qeq_bool_refl s). reflexivity.
  - rewrite IH by easy. cbv zeta. rewrite largest_snoc by easy.
    set (k := p :: l) in *. set (t := largest (map fst k)). unfold larger. cbn [take fst snd filter].
    destruct (Qle_bool s t) eqn:E.
    + destruct (Qeq_bool s t); cbn [length map]; unfold total; rewrite fold_left_app; cbn [fold_left];
        f_equal; f_equal; f_equal; lia.
    + rewrite (Qeq_bool_refl s).
      assert (N : filter (fun pair : Q * vector => Qeq_bool (fst pair) s) k = []).
      { assert (B : forall y, In y k -> fst y <= t) by (intros y Y; apply largest_bounds; now apply in_map).
        revert B E. generalize t as u. generalize k as m. clear. intros m u B E.
        induction m as [|y m IHm]; cbn [filter]; trivial.
        destruct (Qeq_bool (fst y) s) eqn:F.
        - exfalso. apply Qeq_bool_iff in F. pose proof (B y (or_introl eq_refl)) as C. rewrite F in C.
          apply Qle_bool_iff in C. congruence.
        - apply IHm. intros z Z. apply B. now right. }
      rewrite N. reflexivity.
Qed.

Definition scores (h : head) (q s : vector) : Q * vector :=
  (dot q (times (key h) s), times (HardAttention.value h) s).
Definition asks (h : head) (z : vector) : vector := add (times (query h) z) (bias h).

Lemma attend_take h z seen :
  seen <> [] -> attend h z seen = write h (mixed (fold_left take (map (scores h (asks h z)) seen) None)).
Proof.
  intros N. rewrite take_all by (now destruct seen). unfold attend. fold (asks h z).
  cbv zeta. cbn [mixed]. unfold mean, scores. now rewrite map_length.
Qed.

(** ** What a node adds up *)

Inductive tally :=
  | Counted (n : nat)
  | Empty
  | Alike (v : value) (n : nat)
  | Mixed (sum : Q) (n : nat).

Definition tally_eqb (a b : tally) : bool :=
  match a, b with
  | Counted m, Counted n => Nat.eqb m n
  | Empty, Empty => true
  | Alike v m, Alike w n => if same v w then Nat.eqb m n else false
  | Mixed p m, Mixed q n => if q_eqb p q then Nat.eqb m n else false
  | _, _ => false
  end.

Lemma tally_decides : decides tally_eqb.
Proof.
  intros [m| |v m|p m] [n| |w n|q n]; cbn; try easy.
  - intros E. now rewrite (nat_decides _ _ E).
  - destruct (same v w) eqn:E; [|easy]. intros F. now rewrite (same_decides _ _ E), (nat_decides _ _ F).
  - destruct (q_eqb p q) eqn:E; [|easy]. intros F. now rewrite (q_decides _ _ E), (nat_decides _ _ F).
Qed.

Definition start (n : node) : tally :=
  match n with Width _ => Counted 0 | _ => Empty end.

(** The value that a position adds, where it is selected. Nodes that do not select have none. *)
Definition pick (n : node) (r k : row) : option (option value) :=
  match n with
  | Width s => option_map (fun b : bool => if b then Some Nothing else None) (selects s r k)
  | Aggregate s e _ => option_map (fun b : bool => if b then Some (entry e k) else None) (selects s r k)
  | _ => None
  end.

(** Numbers are counted, since a mean may be needed; other values need not be. *)
Definition counts (v : value) (n : nat) : nat := match v with Number _ => S n | _ => 1%nat end.

(** n p + q, in lowest terms. *)
Definition merged (p : Q) (n : nat) (q : Q) : Q := Qred (p * inject_Z (Z.of_nat n) + q).
Lemma merged_ok p n q : merged p n q == p * inject_Z (Z.of_nat n) + q.
Proof. apply Qred_correct. Qed.
#[local] Opaque merged.

Definition count_in (a : tally) (v : value) : option tally :=
  match a with
  | Counted n => Some (Counted (S n))
  | Empty => Some (Alike v 1)
  | Alike w n =>
      if same w v then Some (Alike w (counts w n))
      else match w, v with
           | Number p, Number q => Some (Mixed (merged p n q) (S n))
           | _, _ => None
           end
  | Mixed p n => match v with Number q => Some (Mixed (merged p 1 q) (S n)) | _ => None end
  end.

Definition maybe_count (a : tally) (v : option value) : option tally :=
  match v with Some v => count_in a v | None => Some a end.

Definition finish (n : node) (a : tally) : option value :=
  match n, a with
  | Width _, Counted m => Some (count m)
  | Aggregate _ _ default, Empty => Some default
  | Aggregate _ _ _, Alike v _ => Some v
  | Aggregate _ _ _, Mixed p m => Some (Number (Qred (p / inject_Z (Z.of_nat m))))
  | _, _ => None
  end.

(** What a tally says of the values that were selected so far. *)
Definition tells (n : node) (a : tally) (values : list value) : Prop :=
  match n, a with
  | Width _, Counted m => m = length values
  | Aggregate _ _ _, Empty => values = []
  | Aggregate _ _ _, Alike v m =>
      values <> [] /\ (forall w, In w values -> w = v) /\
      (forall q, v = Number q -> m = length values)
  | Aggregate _ _ _, Mixed p m =>
      m = length values /\ (exists q, sum_of values = Some q /\ q == p) /\
      match values with [] => False | v :: rest => forallb (same v) rest = false end
  | _, _ => False
  end.

Lemma sum_of_snoc l v q :
  sum_of (l ++ [v]) = Some q ->
  exists p r, v = Number p /\ sum_of l = Some r /\ q == r + p.
Proof.
  revert q; induction l as [|x l IH]; intros q; cbn [app sum_of].
  - destruct v as [|p| | |]; try easy. cbn. intros E. injection E as <-. exists p, 0.
    repeat split. ring.
  - destruct x as [|y| | |]; try easy. destruct (sum_of (l ++ [v])) as [s|]; [|easy]. cbn.
    intros E. injection E as <-. destruct (IH s eq_refl) as (p & r & V & R & S). exists p, (y + r).
    rewrite R. repeat split; trivial. rewrite S. ring.
Qed.

Lemma sum_of_app l p r : sum_of l = Some r -> exists q, sum_of (l ++ [Number p]) = Some q /\ q == r + p.
Proof.
  revert r; induction l as [|x l IH]; intros r; cbn [app sum_of].
  - intros E. injection E as <-. exists (p + 0). split; trivial. ring.
  - destruct x as [|y| | |]; try easy. destruct (sum_of l) as [s|]; [|easy]. cbn. intros E.
    injection E as <-. destruct (IH s eq_refl) as (q & Q' & S). exists (y + q). rewrite Q'. split; trivial.
    rewrite S. ring.
Qed.

Lemma sum_of_same l q :
  (forall w, In w l -> w = Number q) ->
  exists s, sum_of l = Some s /\ s == q * inject_Z (Z.of_nat (length l)).
Proof.
  induction l as [|x l IH]; intros H; cbn [sum_of length].
  - exists 0. split; trivial. change (inject_Z (Z.of_nat 0)) with 0. ring.
  - rewrite (H x (or_introl eq_refl)). destruct IH as (s & S & E); [intros w W; apply H; now right|].
    rewrite S. exists (q + s). split; trivial. rewrite E, Nat2Z.inj_succ. unfold Z.succ.
    rewrite inject_Z_plus. change (inject_Z 1) with 1. ring.
Qed.

Lemma forallb_false_app v rest w : forallb (same v) rest = false -> forallb (same v) (rest ++ [w]) = false.
Proof. intros F. rewrite forallb_app, F. reflexivity. Qed.

Lemma count_in_ok n a v b values :
  tells n a values -> count_in a v = Some b -> tells n b (values ++ [v]).
Proof.
  destruct n as [| | | |s|s e d]; try easy; destruct a as [m| |w m|p m]; try easy; cbn [tells count_in].
  - intros -> E. injection E as <-. cbn [tells]. rewrite app_length. cbn [length]. lia.
  - intros -> E. injection E as <-. cbn [tells app]. repeat split; try easy.
    intros w [<-|[]]. reflexivity.
  - intros (N & A & C). destruct (same w v) eqn:S.
    + apply same_ok in S. subst v. intros E. injection E as <-. cbn [tells]. repeat split.
      * now destruct values.
      * intros u U. apply in_app_or in U as [U|[<-|[]]]; auto.
      * intros q ->. cbn [counts]. rewrite (C q eq_refl), app_length. cbn [length]. lia.
    + destruct w as [|p| | |]; try easy. destruct v as [|q| | |]; try easy. intros E. injection E as <-.
      cbn [tells]. rewrite (C p eq_refl), app_length. cbn [length]. repeat split; [lia| |].
      * destruct (sum_of_same values p A) as (s' & S' & E'). destruct (sum_of_app values q s' S') as (t & T & F).
        exists t. split; trivial. now rewrite F, E', merged_ok.
      * destruct values as [|x rest]; [easy|]. cbn [app]. rewrite (A x (or_introl eq_refl)).
        rewrite forallb_app. cbn [forallb]. rewrite S. now rewrite andb_false_r.
  - intros (M & (r & R & E) & D). destruct v as [|q| | |]; try easy. intros F. injection F as <-.
    cbn [tells]. rewrite app_length, M. cbn [length]. repeat split; [lia| |].
    + destruct (sum_of_app values q r R) as (t & T & G). exists t. split; trivial.
      rewrite G, E, merged_ok. change (inject_Z (Z.of_nat 1)) with 1. ring.
    + destruct values as [|x rest]; [easy|]. cbn [app]. now apply forallb_false_app.
Qed.

(** The node's values among those of selected rows. *)
Definition shows (n : node) (k : row) : value :=
  match n with Aggregate _ e _ => entry e k | _ => Nothing end.
Definition selector_of (n : node) : selector :=
  match n with Aggregate s _ _ => s | Width s => s | _ => Select 0 0 (Compare Never) end.
Definition selecting (n : node) : bool :=
  match n with Aggregate _ _ _ | Width _ => true | _ => false end.

Lemma start_ok n : selecting n = true -> tells n (start n) [].
Proof. now destruct n. Qed.

Lemma pick_ok n r k v :
  pick n r k = Some v ->
  exists b, selects (selector_of n) r k = Some b /\ v = if b then Some (shows n k) else None.
Proof.
  destruct n; cbn [pick selector_of shows]; try easy;
    destruct (selects s r k) as [b|]; try easy; cbn [option_map]; intros E; injection E as <-;
    exists b; split; trivial.
Qed.

Fixpoint count_rows (n : node) (r : row) (a : tally) (ks : list row) : option tally :=
  match ks with
  | [] => Some a
  | k :: rest =>
      match pick n r k with
      | Some v => match maybe_count a v with Some b => count_rows n r b rest | None => None end
      | None => None
      end
  end.

Lemma count_rows_ok n r ks a b values :
  tells n a values -> count_rows n r a ks = Some b ->
  exists chosen, selected (selector_of n) r ks = Some chosen /\ tells n b (values ++ map (shows n) chosen).
Proof.
  revert a values; induction ks as [|k ks IH]; intros a values T; cbn [count_rows selected].
  - intros E. injection E as <-. exists []. split; trivial. cbn [map]. now rewrite app_nil_r.
  - destruct (pick n r k) as [v|] eqn:P; [|easy]. destruct (pick_ok n r k v P) as (c & S & V). rewrite S.
    destruct (maybe_count a v) as [a'|] eqn:M; [|easy]. intros C.
    assert (T' : tells n a' (values ++ (if c then [shows n k] else []))).
    { subst v. destruct c; cbn [maybe_count] in M.
      - eapply count_in_ok; eauto.
      - injection M as <-. now rewrite app_nil_r. }
    destruct (IH a' _ T' C) as (chosen & E & F). rewrite E. destruct c.
    + exists (k :: chosen). split; trivial. cbn [map]. now rewrite <- app_assoc in F.
    + exists chosen. split; trivial. now rewrite app_nil_r in F.
Qed.

Lemma finish_ok n r ks a v :
  selecting n = true -> count_rows n r (start n) ks = Some a -> finish n a = Some v ->
  node_value n r ks = Some v.
Proof.
  intros S C F. destruct (count_rows_ok n r ks _ a [] (start_ok n S) C) as (chosen & E & T).
  cbn [app] in T. destruct n as [| | | |s|s e d]; try easy; cbn [selector_of] in E; cbn [node_value];
    rewrite E; destruct a as [m| |w m|p m]; try easy; cbn [finish tells] in F, T.
  - cbn [option_map]. subst m. rewrite map_length in F. exact F.
  - cbn [shows] in T. destruct chosen; [exact F|easy].
  - destruct T as (N & A & _). change (map (shows (Aggregate s e d)) chosen) with (map (entry e) chosen) in *.
    injection F as <-. destruct (map (entry e) chosen) as [|x rest]; [easy|]. cbn [average].
    rewrite (A x (or_introl eq_refl)).
    assert (B : forallb (same w) rest = true); [|now rewrite B].
    apply forallb_forall. intros y Y. apply same_ok. symmetry. apply A. now right.
  - destruct T as (-> & (q & Q' & E') & D).
    change (map (shows (Aggregate s e d)) chosen) with (map (entry e) chosen) in *.
    destruct (map (entry e) chosen) as [|x rest]; [easy|]. unfold average. rewrite D, Q'. cbn [option_map].
    rewrite <- F. do 2 f_equal. apply Qred_complete. now rewrite E'.
Qed.
