(** Sequence maps: all points of a cell followed at once, and all cells one by one.

    On a cell every entry of a token is an affine form in the token's own coordinates. Layers act on
    forms as long as every activation stays on one of its pieces, and attention reads constants. *)

From Coq Require Import Arith ZArith QArith Qround List Bool Lia Lqa.
From Exactformer Require Import HardAttention Grids Inputs.
Import ListNotations.
Open Scope Q_scope.

(** ** Arithmetic in lowest terms is arithmetic *)

Lemma plus_ok a b : plus a b == a + b.
Proof.
  unfold plus. destruct a as [n d], b as [m e]; cbn [Qden Qnum].
  destruct d; try apply Qred_correct. destruct e; try apply Qred_correct.
  unfold Qeq, Qplus; cbn [Qden Qnum]. lia.
Qed.

Lemma mult_ok a b : mult a b == a * b.
Proof.
  unfold mult. destruct a as [n d], b as [m e]; cbn [Qden Qnum].
  destruct d; try apply Qred_correct. destruct e; try apply Qred_correct.
  unfold Qeq, Qmult; cbn [Qden Qnum]. lia.
Qed.

(** ** Affine forms *)

(** c + a_1 x_1 + a_2 x_2 + ... *)
Definition form := (Q * vector)%type.

Fixpoint lin (a x : vector) : Q :=
  match a, x with a :: rest, t :: x => a * t + lin rest x | _, _ => 0 end.
Definition at_point (x : vector) (f : form) : Q := fst f + lin (snd f) x.

Definition none : form := (0, []).
Definition number_form (q : Q) : form := (q, []).
Definition form_plus (f g : form) : form := (plus (fst f) (fst g), add (snd f) (snd g)).
Definition form_times (q : Q) (f : form) : form := (mult q (fst f), map (mult q) (snd f)).

Lemma lin_nil a : lin a [] = 0.
Proof. now destruct a. Qed.

Lemma lin_add a b x : lin (add a b) x == lin a x + lin b x.
Proof.
  revert b x; induction a as [|p a IH]; intros [|q b] [|t x]; cbn [add lin]; try ring.
  rewrite IH, plus_ok. ring.
Qed.

Lemma lin_times q a x : lin (map (mult q) a) x == q * lin a x.
Proof.
  revert x; induction a as [|p a IH]; intros [|t x]; cbn [map lin]; try ring.
  rewrite IH, mult_ok. ring.
Qed.

Lemma form_plus_ok x f g : at_point x (form_plus f g) == at_point x f + at_point x g.
Proof. unfold at_point, form_plus; cbn [fst snd]. rewrite lin_add, plus_ok. ring. Qed.

Lemma form_times_ok x q f : at_point x (form_times q f) == q * at_point x f.
Proof. unfold at_point, form_times; cbn [fst snd]. rewrite lin_times, mult_ok. ring. Qed.

(** ** Vectors of forms, and the vectors that they are at a point *)

Definition rep (x : vector) (fs : list form) (v : vector) : Prop :=
  Forall2 (fun f q => q == at_point x f) fs v.

Fixpoint form_row (row : sparse) (fs : list form) : form :=
  match row with
  | [] => none
  | (j, q) :: rest => form_plus (form_times q (nth j fs none)) (form_row rest fs)
  end.
Definition forms_times (M : matrix) (fs : list form) : list form :=
  map (fun row => form_row row fs) M.

Fixpoint forms_add (fs gs : list form) : list form :=
  match fs, gs with
  | [], _ => gs
  | _, [] => fs
  | f :: fs, g :: gs => form_plus f g :: forms_add fs gs
  end.

Lemma rep_nth x fs v j : rep x fs v -> nth j v 0 == at_point x (nth j fs none).
Proof.
  intros H. revert j. induction H as [|f q fs v E H IH]; intros [|j]; cbn [nth]; trivial;
    unfold at_point; cbn [fst snd none lin]; ring.
Qed.

Lemma rep_row x row fs v : rep x fs v -> row_times row v == at_point x (form_row row fs).
Proof.
  intros H. induction row as [|[j q] row IH]; cbn [row_times form_row].
  - unfold at_point; cbn [fst snd none lin]. ring.
  - rewrite plus_ok, mult_ok, IH, form_plus_ok, form_times_ok, (rep_nth x fs v j H). reflexivity.
Qed.

Lemma rep_times x M fs v : rep x fs v -> rep x (forms_times M fs) (times M v).
Proof.
  intros H. induction M as [|row M IH]; constructor; [|apply IH]. now apply rep_row.
Qed.

Lemma rep_add x fs gs v w : rep x fs v -> rep x gs w -> rep x (forms_add fs gs) (add v w).
Proof.
  intros H. revert gs w. induction H as [|f p fs v E H IH]; intros gs w G; [exact G|].
  destruct G as [|g q gs w F G]; cbn [forms_add add]; constructor; trivial.
  - now rewrite plus_ok, form_plus_ok, E, F.
  - now apply IH.
Qed.

Lemma rep_numbers x v w : Forall2 Qeq v w -> rep x (map number_form v) w.
Proof.
  induction 1 as [|a b v w E H IH]; constructor; trivial.
  unfold at_point, number_form; cbn [fst snd lin]. rewrite E. ring.
Qed.

Lemma same_length {X Y} (R : X -> Y -> Prop) l m : Forall2 R l m -> length l = length m.
Proof. induction 1; cbn [length]; congruence. Qed.

Lemma equals_refl v : Forall2 Qeq v v.
Proof. induction v; constructor; trivial; reflexivity. Qed.

Lemma equals_sym v w : Forall2 Qeq v w -> Forall2 Qeq w v.
Proof. induction 1; constructor; trivial. now symmetry. Qed.

Lemma rep_constant x v : rep x (map number_form v) v.
Proof. apply rep_numbers, equals_refl. Qed.

(** ** Activations *)

(** Ends [lo, hi) of every coordinate. *)
Definition box := list (Q * Q).
Definition within (b : box) (x : vector) : Prop :=
  Forall2 (fun ends t => fst ends <= t /\ t < snd ends) b x.

Definition positive (q : Q) : bool := negb (Qle_bool q 0).
Definition negative (q : Q) : bool := negb (Qle_bool 0 q).

Fixpoint least (a : vector) (b : box) : Q :=
  match a, b with
  | a :: rest, (lo, hi) :: b => a * (if negative a then hi else lo) + least rest b
  | _, _ => 0
  end.
Fixpoint most (a : vector) (b : box) : Q :=
  match a, b with
  | a :: rest, (lo, hi) :: b => a * (if negative a then lo else hi) + most rest b
  | _, _ => 0
  end.
(** Whether the upper end is not reached. *)
Fixpoint open_above (a : vector) (b : box) : bool :=
  match a, b with
  | a :: rest, _ :: b => if positive a then true else open_above rest b
  | _, _ => false
  end.

Definition reaches (bound : Q) (b : box) (f : form) : bool :=
  Qle_bool bound (fst f + least (snd f) b).
Definition stays_below (bound : Q) (b : box) (f : form) : bool :=
  let top := fst f + most (snd f) b in
  if Qle_bool bound top then (if Qle_bool top bound then open_above (snd f) b else false) else true.

Lemma negative_iff q : negative q = true <-> q < 0.
Proof.
  unfold negative. rewrite negb_true_iff. split; intros H.
  - apply Qnot_le_lt. intros C. apply Qle_bool_iff in C. congruence.
  - destruct (Qle_bool 0 q) eqn:E; trivial. apply Qle_bool_iff in E. lra.
Qed.
Lemma positive_iff q : positive q = true <-> 0 < q.
Proof.
  unfold positive. rewrite negb_true_iff. split; intros H.
  - apply Qnot_le_lt. intros C. apply Qle_bool_iff in C. congruence.
  - destruct (Qle_bool q 0) eqn:E; trivial. apply Qle_bool_iff in E. lra.
Qed.

Lemma between a b x : within b x -> least a b <= lin a x /\ lin a x <= most a b /\
  (open_above a b = true -> lin a x < most a b).
Proof.
  intros H. revert a. induction H as [|[lo hi] t b x [L U] H IH]; intros [|p a];
    cbn [least most lin open_above]; try (repeat split; easy || lra).
  cbn [fst snd] in L, U. destruct (IH a) as (I & J & K).
  destruct (negative p) eqn:N.
  - apply negative_iff in N.
    assert (p * hi <= p * t) by nra. assert (p * t <= p * lo) by nra.
    destruct (positive p) eqn:P; [apply positive_iff in P; lra|].
    repeat split; try lra. intros O. specialize (K O). lra.
  - assert (Z : 0 <= p).
    { apply Qnot_lt_le. intros C. apply negative_iff in C. congruence. }
    assert (p * lo <= p * t) by nra. assert (p * t <= p * hi) by nra.
    destruct (positive p) eqn:P.
    + apply positive_iff in P. assert (p * t < p * hi) by nra. repeat split; try lra.
    + repeat split; try lra. intros O. specialize (K O). lra.
Qed.

Lemma reaches_ok bound b f x :
  within b x -> reaches bound b f = true -> bound <= at_point x f.
Proof.
  intros H R. apply Qle_bool_iff in R. destruct (between (snd f) b x H) as (I & _).
  unfold at_point. lra.
Qed.

Lemma stays_below_ok bound b f x :
  within b x -> stays_below bound b f = true -> at_point x f < bound.
Proof.
  intros H R. destruct (between (snd f) b x H) as (_ & J & K). unfold stays_below in R. unfold at_point.
  destruct (Qle_bool bound _) eqn:E.
  - destruct (Qle_bool _ bound) eqn:F; [|easy]. apply Qle_bool_iff in F. specialize (K R). lra.
  - assert (fst f + most (snd f) b < bound); [|lra].
    apply Qnot_le_lt. intros C. apply Qle_bool_iff in C. congruence.
Qed.

Fixpoint form_piece (piece : Q * Q) (later : list (Q * (Q * Q))) (b : box) (f : form)
    : option (Q * Q) :=
  match later with
  | (break, next) :: rest =>
      if reaches break b f then form_piece next rest b f
      else if stays_below break b f then Some piece else None
  | [] => Some piece
  end.

Definition form_activate (a : activation) (b : box) (f : form) : option form :=
  option_map (fun piece => form_plus (form_times (fst piece) f) (number_form (snd piece)))
    (form_piece (first a) (later a) b f).

Lemma form_piece_ok piece later b f x q found :
  within b x -> q == at_point x f -> form_piece piece later b f = Some found ->
  piece_at piece later q = found.
Proof.
  intros H E. revert piece. induction later as [|[break next] rest IH]; intros piece;
    cbn [form_piece piece_at]; [congruence|].
  destruct (reaches break b f) eqn:R.
  - intros P. apply (reaches_ok _ _ _ x H) in R. rewrite <- E in R. apply Qle_bool_iff in R.
    rewrite R. now apply IH.
  - destruct (stays_below break b f) eqn:S; [|easy]. intros P.
    apply (stays_below_ok _ _ _ x H) in S. rewrite <- E in S.
    destruct (Qle_bool break q) eqn:B; [apply Qle_bool_iff in B; lra|]. congruence.
Qed.

Lemma form_activate_ok a b f x q g :
  within b x -> q == at_point x f -> form_activate a b f = Some g -> activate a q == at_point x g.
Proof.
  intros H E. unfold form_activate, activate. destruct (form_piece _ _ _ _) as [piece|] eqn:P; [|easy].
  cbn [option_map]. intros G. injection G as <-.
  rewrite (form_piece_ok _ _ _ _ _ _ _ H E P). destruct piece as [slope rest].
  cbn [fst snd]. rewrite plus_ok, mult_ok, form_plus_ok, form_times_ok, E.
  unfold at_point at 3, number_form; cbn [fst snd lin]. ring.
Qed.

(** All of several optional things, or none. *)
Fixpoint every {X Y} (f : X -> option Y) (l : list X) : option (list Y) :=
  match l with
  | [] => Some []
  | x :: rest =>
      match f x, every f rest with Some y, Some ys => Some (y :: ys) | _, _ => None end
  end.

Definition form_feed (f : feed_forward) (b : box) (fs : list form) : option (list form) :=
  option_map
    (fun hidden => forms_add fs (forms_add (forms_times (w2 f) hidden) (map number_form (b2 f))))
    (every (form_activate (activated_by f) b)
      (forms_add (forms_times (w1 f) fs) (map number_form (b1 f)))).

Lemma every_rep a b x fs v gs :
  within b x -> rep x fs v -> every (form_activate a b) fs = Some gs -> rep x gs (map (activate a) v).
Proof.
  intros W H. revert gs. induction H as [|f q fs v E H IH]; intros gs; cbn [every map].
  - intros G. injection G as <-. constructor.
  - destruct (form_activate a b f) as [g|] eqn:A; [|easy].
    destruct (every _ fs) as [rest|]; [|easy]. intros G. injection G as <-. constructor.
    + now apply (form_activate_ok a b f).
    + now apply IH.
Qed.

Lemma form_feed_ok f b x fs v gs :
  within b x -> rep x fs v -> form_feed f b fs = Some gs -> rep x gs (feed f v).
Proof.
  intros W H. unfold form_feed, feed. destruct (every _ _) as [hidden|] eqn:A; [|easy].
  cbn [option_map]. intros G. injection G as <-.
  apply rep_add; trivial. apply rep_add; [|apply rep_constant]. apply rep_times.
  apply (every_rep _ b x _ _ _ W) with (2 := A).
  apply rep_add; [now apply rep_times|apply rep_constant].
Qed.

(** ** Attention to constants *)

Definition fixed (f : form) : option Q :=
  if forallb (Qeq_bool 0) (snd f) then Some (fst f) else None.

Lemma fixed_ok x f c : fixed f = Some c -> at_point x f == c.
Proof.
  unfold fixed, at_point. destruct (forallb _ _) eqn:Z; [|easy]. intros E. injection E as <-.
  assert (L : lin (snd f) x == 0); [|rewrite L; ring].
  revert x Z. induction (snd f) as [|a rest IH]; intros [|t x]; cbn [forallb lin]; try reflexivity.
  intros Z. apply andb_true_iff in Z as (A & Z). apply Qeq_bool_iff in A. rewrite <- A, (IH x Z). ring.
Qed.

Lemma every_fixed x fs v cs : rep x fs v -> every fixed fs = Some cs -> Forall2 Qeq v cs.
Proof.
  intros H. revert cs. induction H as [|f q fs v E H IH]; intros cs; cbn [every].
  - intros G. injection G as <-. constructor.
  - destruct (fixed f) as [c|] eqn:F; [|easy]. destruct (every fixed fs); [|easy].
    intros G. injection G as <-. constructor; [|now apply IH]. rewrite E. now apply fixed_ok.
Qed.

(** What a head computes from scores and values. *)
Definition mixture (scored : list (Q * vector)) : vector :=
  let top := largest (map fst scored) in
  mean (map snd (filter (fun pair => Qeq_bool (fst pair) top) scored)).

Definition alike (a b : Q * vector) : Prop := fst a == fst b /\ Forall2 Qeq (snd a) (snd b).

Lemma add_alike v w v' w' :
  Forall2 Qeq v v' -> Forall2 Qeq w w' -> Forall2 Qeq (add v w) (add v' w').
Proof.
  intros H. revert w w'. induction H as [|a b v v' E H IH]; intros w w' G; [exact G|].
  destruct G as [|c d w w' F G]; cbn [add]; constructor; trivial.
  - now rewrite !plus_ok, E, F.
  - now apply IH.
Qed.

Lemma dot_alike v w v' w' : Forall2 Qeq v v' -> Forall2 Qeq w w' -> dot v w == dot v' w'.
Proof.
  intros H. revert w w'. induction H as [|a b v v' E H IH]; intros w w' G; [reflexivity|].
  destruct G as [|c d w w' F G]; cbn [dot]; [reflexivity|].
  now rewrite !plus_ok, !mult_ok, E, F, (IH _ _ G).
Qed.

Lemma row_alike row v v' : Forall2 Qeq v v' -> row_times row v == row_times row v'.
Proof.
  intros H. induction row as [|[j q] row IH]; cbn [row_times]; [reflexivity|].
  rewrite !plus_ok, !mult_ok, IH. assert (E : nth j v 0 == nth j v' 0); [|now rewrite E].
  clear IH row q. revert j. induction H; intros [|j]; cbn [nth]; trivial; reflexivity.
Qed.

Lemma times_alike M v v' : Forall2 Qeq v v' -> Forall2 Qeq (times M v) (times M v').
Proof. intros H. induction M as [|row M IH]; constructor; [now apply row_alike|apply IH]. Qed.

Lemma larger_alike a b c d : a == c -> b == d -> larger a b == larger c d.
Proof.
  intros E F. unfold larger. destruct (Qle_bool b a) eqn:A, (Qle_bool d c) eqn:B; trivial.
  - apply Qle_bool_iff in A. exfalso. assert (d <= c) by lra. apply Qle_bool_iff in H. congruence.
  - apply Qle_bool_iff in B. exfalso. assert (b <= a) by lra. apply Qle_bool_iff in H. congruence.
Qed.

Lemma largest_alike l m : Forall2 Qeq l m -> largest l == largest m.
Proof.
  intros H. destruct H as [|a b l m E H]; cbn [largest]; [reflexivity|].
  revert a b E. induction H as [|c d l m F H IH]; intros a b E; cbn [fold_left]; trivial.
  apply IH. now apply larger_alike.
Qed.

Lemma mean_alike l m : Forall2 (Forall2 Qeq) l m -> Forall2 Qeq (mean l) (mean m).
Proof.
  intros H. unfold mean. assert (L : length l = length m) by (now apply (same_length (Forall2 Qeq))).
  change (@length vector) with (@length (list Q)). rewrite L.
  generalize (/ inject_Z (Z.of_nat (length m))) as c. intros c. clear L.
  assert (T : Forall2 Qeq (total l) (total m)).
  { unfold total. generalize (equals_refl []). generalize ([] : vector) at 1 3 as v.
    generalize ([] : vector) as w. induction H as [|a b l m E H IH]; intros w v G; cbn [fold_left]; trivial.
    apply IH. now apply add_alike. }
  induction T as [|a b v w E T IH]; constructor; trivial. now rewrite !mult_ok, E.
Qed.

Lemma mixture_alike l m : Forall2 alike l m -> Forall2 Qeq (mixture l) (mixture m).
Proof.
  intros H. apply mean_alike.
  assert (T : largest (map fst l) == largest (map fst m)).
  { apply largest_alike. induction H as [|a b l m [E _] H IH]; constructor; trivial. }
  revert T. generalize (largest (map fst l)) as s, (largest (map fst m)) as t. intros s t T.
  induction H as [|a b l m [E F] H IH]; cbn [filter]; [constructor|].
  assert (B : Qeq_bool (fst a) s = Qeq_bool (fst b) t).
  { apply eq_true_iff_eq. rewrite !Qeq_bool_iff, E, T. reflexivity. }
  rewrite B. destruct (Qeq_bool (fst b) t); cbn [map]; trivial. now constructor.
Qed.

(** The constants that tokens show to a head: keys and values. *)
Definition shown (h : head) (fs : list form) : option (vector * vector) :=
  match every fixed (forms_times (key h) fs), every fixed (forms_times (value h) fs) with
  | Some k, Some v => Some (k, v)
  | _, _ => None
  end.

Definition form_attend (h : head) (fs : list form) (tokens : list (vector * vector)) : option vector :=
  option_map (fun q => write h (mixture (map (fun t => (dot q (fst t), snd t)) tokens)))
    (every fixed (forms_add (forms_times (query h) fs) (map number_form (bias h)))).

Definition form_heads (heads : list head) (all : list (list form)) (fs : list form)
    : option (list form) :=
  fold_left (fun sum h =>
    match sum, every (shown h) all with
    | Some sum, Some tokens =>
        option_map (fun v => forms_add sum (map number_form v)) (form_attend h fs tokens)
    | _, _ => None
    end) heads (Some fs).

(** Streams: a point, forms and a vector for every token. *)
Definition reps (xs : list vector) (all : list (list form)) (z : stream) : Prop :=
  length xs = length z /\ length all = length z /\
  forall i, (i < length z)%nat -> rep (nth i xs []) (nth i all []) (nth i z []).

Lemma shown_all h xs all z tokens :
  reps xs all z -> every (shown h) all = Some tokens ->
  Forall2 (fun s t => Forall2 Qeq (times (key h) s) (fst t) /\ Forall2 Qeq (times (value h) s) (snd t))
    z tokens.
Proof.
  intros (X & A & H). revert xs z X A H tokens.
  induction all as [|fs all IH]; intros xs [|s z] X A H tokens; cbn [length every] in *; try easy.
  - intros G. injection G as <-. constructor.
  - destruct (shown h fs) as [t|] eqn:SH; [|easy]. destruct (every (shown h) all) as [ts|] eqn:E; [|easy].
    intros G. injection G as <-. destruct xs as [|x xs]; [easy|]. constructor.
    + pose proof (H 0%nat ltac:(lia)) as R. cbn [nth] in R. unfold shown in SH.
      destruct (every fixed (forms_times (key h) fs)) as [k|] eqn:K; [|easy].
      destruct (every fixed (forms_times (value h) fs)) as [v|] eqn:V; [|easy].
      injection SH as <-. cbn [fst snd]. split.
      * apply (every_fixed x _ _ _) with (2 := K). now apply rep_times.
      * apply (every_fixed x _ _ _) with (2 := V). now apply rep_times.
    + apply (IH xs); cbn [length] in *; try lia; trivial.
      intros i I. apply (H (S i)). lia.
Qed.

Lemma form_attend_ok h x fs v z tokens found :
  rep x fs v ->
  Forall2 (fun s t => Forall2 Qeq (times (key h) s) (fst t) /\ Forall2 Qeq (times (value h) s) (snd t))
    z tokens ->
  form_attend h fs tokens = Some found -> Forall2 Qeq found (attend h v z).
Proof.
  intros R T. unfold form_attend. destruct (every fixed _) as [q|] eqn:E; [|easy].
  cbn [option_map]. intros G. injection G as <-.
  assert (S : Forall2 Qeq (add (times (query h) v) (bias h)) q).
  { apply (every_fixed x _ _ _) with (2 := E). apply rep_add; [now apply rep_times|apply rep_constant]. }
  unfold attend. fold (mixture (map (fun s => (dot (add (times (query h) v) (bias h)) (times (key h) s),
    times (value h) s)) z)).
  assert (M : Forall2 Qeq (mixture (map (fun t => (dot q (fst t), snd t)) tokens))
     (mixture (map (fun s => (dot (add (times (query h) v) (bias h)) (times (key h) s),
       times (value h) s)) z))).
  { apply mixture_alike. clear E. induction T as [|s t z tokens [K V] T IH]; cbn [map]; constructor; trivial.
    split; cbn [fst snd].
    - symmetry. now apply dot_alike.
    - now apply equals_sym. }
  unfold write. destruct (output h); trivial. now apply times_alike.
Qed.

Lemma form_heads_ok heads xs all z x fs v found :
  reps xs all z -> rep x fs v -> form_heads heads all fs = Some found ->
  rep x found (fold_left (fun sum h => add sum (attend h v z)) heads v).
Proof.
  intros A R. unfold form_heads.
  assert (G : forall sum w, (forall s, sum = Some s -> rep x s w) ->
    fold_left (fun sum h =>
      match sum, every (shown h) all with
      | Some sum, Some tokens =>
          option_map (fun v => forms_add sum (map number_form v)) (form_attend h fs tokens)
      | _, _ => None
      end) heads sum = Some found ->
    rep x found (fold_left (fun sum h => add sum (attend h v z)) heads w)).
  { induction heads as [|h heads IH]; intros sum w S; cbn [fold_left]; [intros E; now apply S|].
    apply IH. intros s E. destruct sum as [sum|]; [|easy].
    destruct (every (shown h) all) as [tokens|] eqn:T; [|easy].
    destruct (form_attend h fs tokens) as [a|] eqn:F; [|easy]. cbn [option_map] in E. injection E as <-.
    apply rep_add; [now apply S|]. apply rep_numbers.
    eapply form_attend_ok; eauto. eapply shown_all; eauto. }
  apply G. intros s E. now injection E as <-.
Qed.

(** ** Layers *)

Fixpoint zipped {X Y Z} (f : X -> Y -> option Z) (l : list X) (m : list Y) : option (list Z) :=
  match l, m with
  | [], [] => Some []
  | x :: l, y :: m =>
      match f x y, zipped f l m with Some z, Some zs => Some (z :: zs) | _, _ => None end
  | _, _ => None
  end.

Definition form_layer (bs : list box) (l : layer) (all : list (list form)) : option (list (list form)) :=
  match l with
  | Attention heads => every (form_heads heads all) all
  | FeedForward f => zipped (form_feed f) bs all
  end.

Definition form_layers (bs : list box) (ls : list layer) (all : list (list form))
    : option (list (list form)) :=
  fold_left (fun found l => match found with Some all => form_layer bs l all | None => None end)
    ls (Some all).

Lemma every_nth {X Y} (f : X -> option Y) l ys :
  every f l = Some ys ->
  length ys = length l /\ forall i d e, (i < length l)%nat -> f (nth i l d) = Some (nth i ys e).
Proof.
  revert ys; induction l as [|x l IH]; intros ys; cbn [every].
  - intros E. injection E as <-. split; trivial. cbn [length]. lia.
  - destruct (f x) as [y|] eqn:F; [|easy]. destruct (every f l) as [rest|]; [|easy].
    intros E. injection E as <-. destruct (IH rest eq_refl) as (L & H). cbn [length]. split; [lia|].
    intros [|i] d e I; cbn [nth]; trivial. apply H. lia.
Qed.

Lemma zipped_nth {X Y Z} (f : X -> Y -> option Z) l m zs :
  zipped f l m = Some zs ->
  length l = length m /\ length zs = length m /\
  forall i d e g, (i < length m)%nat -> f (nth i l d) (nth i m e) = Some (nth i zs g).
Proof.
  revert m zs; induction l as [|x l IH]; intros [|y m] zs; cbn [zipped]; try easy.
  - intros E. injection E as <-. repeat split. cbn [length]. lia.
  - destruct (f x y) as [z|] eqn:F; [|easy]. destruct (zipped f l m) as [rest|] eqn:R; [|easy].
    intros E. injection E as <-. destruct (IH m rest R) as (L & M & H). cbn [length].
    repeat split; try lia. intros [|i] d e g I; cbn [nth]; trivial. apply H. lia.
Qed.

Lemma numbered_length {X Y} (f : nat -> X -> Y) l : length (numbered f l) = length l.
Proof.
  unfold numbered. generalize 0%nat. induction l as [|x l IH]; intros k; cbn; trivial. now rewrite IH.
Qed.

Lemma numbered_nth {X Y} (f : nat -> X -> Y) l i d e :
  (i < length l)%nat -> nth i (numbered f l) e = f i (nth i l d).
Proof.
  unfold numbered. enough (G : forall k, (i < length l)%nat ->
    nth i (numbered_from f k l) e = f (k + i)%nat (nth i l d)) by (intros I; now rewrite G).
  revert i; induction l as [|x l IH]; intros i k I; cbn [length] in I; [lia|].
  destruct i as [|i]; cbn [numbered_from nth]; [now rewrite Nat.add_0_r|].
  rewrite IH by lia. f_equal. lia.
Qed.

Lemma form_layer_ok bs l xs all z found :
  length bs = length z ->
  (forall i, (i < length z)%nat -> within (nth i bs []) (nth i xs [])) ->
  reps xs all z -> form_layer bs l all = Some found -> reps xs found (run_layer false z l).
Proof.
  intros B W R. pose proof R as (X & A & H). destruct l as [heads|f]; cbn [form_layer run_layer seen].
  - intros E. apply every_nth in E as (L & E). unfold reps. rewrite numbered_length.
    repeat split; try lia. intros i I. rewrite (numbered_nth _ z i []) by trivial.
    apply (form_heads_ok heads xs all z) with (fs := nth i all []); trivial; [now apply H|].
    rewrite (E i [] []) by lia. reflexivity.
  - intros E. apply zipped_nth in E as (_ & L & E). unfold reps. rewrite map_length.
    repeat split; try lia. intros i I.
    rewrite (nth_indep (map (feed f) z) [] (feed f [])) by (now rewrite map_length). rewrite map_nth.
    eapply form_feed_ok; [now apply W|now apply H|]. apply E. lia.
Qed.

Lemma form_layers_ok bs ls xs all z found :
  length bs = length z ->
  (forall i, (i < length z)%nat -> within (nth i bs []) (nth i xs [])) ->
  reps xs all z -> form_layers bs ls all = Some found -> reps xs found (run_layers false ls z).
Proof.
  intros B W. unfold form_layers, run_layers. revert all z B W.
  induction ls as [|l ls IH]; intros all z B W R; cbn [fold_left].
  - intros E. now injection E as <-.
  - destruct (form_layer bs l all) as [next|] eqn:E.
    + intros F. pose proof (form_layer_ok _ _ _ _ _ _ B W R E) as G.
      assert (L : length (run_layer false z l) = length z).
      { destruct l; cbn [run_layer]; [apply numbered_length|apply map_length]. }
      apply (IH next); trivial; now rewrite L.
    + intros F. exfalso. clear - F. induction ls as [|l ls IH]; [discriminate|]. apply IH, F.
Qed.

(** ** The whole transformer on a cell *)

(** The coordinates themselves, as forms: d of them. *)
Definition coordinates (d : nat) : list form := map (fun r => (0, repeat 0 r ++ [1])) (seq 0 d).

Definition form_embed (T : transformer) (d i : nat) : list form :=
  forms_add (forms_times (features T) (coordinates d))
    (map number_form (add (constant T) (nth i (places T) []))).

Lemma lin_coordinate r x : lin (repeat 0 r ++ [1]) x == nth r x 0.
Proof.
  revert x; induction r as [|r IH]; intros [|t x]; cbn [repeat app lin nth]; try ring; try reflexivity.
  rewrite IH. ring.
Qed.

Lemma rep_coordinates x : rep x (coordinates (length x)) x.
Proof.
  unfold coordinates.
  enough (G : forall k y, (forall r, nth r y 0 = nth (k + r) x 0) ->
    rep x (map (fun r => (0, repeat 0 r ++ [1])) (seq k (length y))) y) by (now apply G).
  intros k y. revert k. induction y as [|t y IH]; intros k H; cbn [length seq map]; constructor.
  - unfold at_point; cbn [fst snd]. rewrite lin_coordinate. specialize (H 0%nat). cbn [nth] in H.
    rewrite Nat.add_0_r in H. rewrite <- H. ring.
  - apply IH. intros r. specialize (H (S r)). cbn [nth] in H. now rewrite H, Nat.add_succ_r.
Qed.

Definition run_cells (T : transformer) (d : nat) (bs : list box) : option (list vector) :=
  match form_layers bs (layers T) (map (form_embed T d) (seq 0 (length bs))) with
  | Some all => every (fun fs => every fixed (forms_times (readout T) fs)) all
  | None => None
  end.

Lemma run_cells_ok T d bs xs found :
  Forall2 within bs xs -> (forall x, In x xs -> length x = d) ->
  run_cells T d bs = Some found -> equals (run T xs) found.
Proof.
  intros W D. unfold run_cells. destruct (form_layers _ _ _) as [all|] eqn:E; [|easy]. intros F.
  pose proof (same_length _ _ _ W) as L.
  assert (R : reps xs all (run_layers false (layers T) (numbered (embed T) xs))).
  { eapply form_layers_ok; [| | |exact E].
    - now rewrite numbered_length.
    - rewrite numbered_length. intros i I. clear - W I. revert i I.
      induction W as [|b x bs xs H W IH]; intros [|i] I; cbn [length nth] in *; try lia; trivial.
      apply IH. lia.
    - unfold reps. rewrite numbered_length, map_length, seq_length. repeat split; trivial.
      intros i I. rewrite (numbered_nth _ xs i []) by trivial.
      rewrite (nth_indep (map (form_embed T d) (seq 0 (length bs))) [] (form_embed T d 0)) by (now rewrite map_length, seq_length, L).
      rewrite map_nth, seq_nth by (now rewrite L). cbn [Nat.add].
      unfold form_embed, embed. apply rep_add; [|apply rep_constant]. apply rep_times.
      rewrite <- (D (nth i xs [])) by (now apply nth_In). apply rep_coordinates. }
  destruct R as (X & A & H). apply every_nth in F as (M & F). unfold run, equals.
  revert X A H. generalize (run_layers false (layers T) (numbered (embed T) xs)). intros z X A H.
  assert (G : length found = length z) by lia. clear - F H G A.
  assert (K : forall i, (i < length z)%nat -> Forall2 Qeq (times (readout T) (nth i z [])) (nth i found [])).
  { intros i I. eapply every_fixed; [apply rep_times, H; trivial|]. apply F. lia. }
  clear - K G. revert found K G. induction z as [|s z IH]; intros [|c found] K G; cbn [length] in *; try lia;
    cbn [map]; constructor.
  - apply (K 0%nat). lia.
  - apply IH; [|lia]. intros i I. apply (K (S i)). lia.
Qed.

(** ** All cells *)

Definition box_of (G : grid) (qs : list nat) : box :=
  map (fun q => let start := low G + side G * inject_Z (Z.of_nat q) in (start, start + side G)) qs.

Fixpoint equal_vectors (v w : vector) : bool :=
  match v, w with
  | [], [] => true
  | a :: v, b :: w => if Qeq_bool a b then equal_vectors v w else false
  | _, _ => false
  end.
Fixpoint equal_sequences (l m : list vector) : bool :=
  match l, m with
  | [], [] => true
  | v :: l, w :: m => if equal_vectors v w then equal_sequences l m else false
  | _, _ => false
  end.

Lemma equal_vectors_ok u v w : Forall2 Qeq u v -> equal_vectors v w = true -> Forall2 Qeq u w.
Proof.
  intros H. revert w. induction H as [|a b u v E H IH]; intros [|c w]; cbn [equal_vectors]; try easy.
  destruct (Qeq_bool b c) eqn:F; [|easy]. intros G. apply Qeq_bool_iff in F. constructor; [|now apply IH].
  now rewrite E.
Qed.

Lemma equal_sequences_ok l m n : equals l m -> equal_sequences m n = true -> equals l n.
Proof.
  unfold equals. intros H. revert n. induction H as [|v w l m E H IH]; intros [|u n]; cbn [equal_sequences]; try easy.
  destruct (equal_vectors w u) eqn:F; [|easy]. intros G. constructor; [|now apply IH].
  eapply equal_vectors_ok; eauto.
Qed.

(** The model has the values of a table on every sequence of n tokens of the grid. *)
Definition has_values (T : transformer) (G : grid) (n : nat) (values : table) : Prop :=
  forall x : list vector,
    length x = n -> (forall t, In t x -> length t = width G) ->
    (forall t q, In t x -> In q t -> low G <= q < low G + side G * inject_Z (Z.of_nat (cells G))) ->
    equals (run T x) (listed G values (numbers G x)).

Inductive grid_verdict := AllCells | WrongCell (ids : list (list nat)) | NoGrid.

Definition right_in (T : transformer) (G : grid) (values : table) (qs : list (list nat)) : bool :=
  match run_cells T (width G) (map (box_of G) qs) with
  | Some found => equal_sequences found (listed G values (map (number G) qs))
  | None => false
  end.

Definition compare_cells (T : transformer) (G : grid) (n : nat) (values : table) : grid_verdict :=
  if positive (side G) then
    match find (fun qs => negb (right_in T G values qs)) (words (words (seq 0 (cells G)) (width G)) n) with
    | Some qs => WrongCell qs
    | None => AllCells
    end
  else NoGrid.

Lemma cell_ok G t :
  0 < side G -> low G <= t -> t < low G + side G * inject_Z (Z.of_nat (cells G)) ->
  (cell G t < cells G)%nat /\
  low G + side G * inject_Z (Z.of_nat (cell G t)) <= t /\
  t < low G + side G * inject_Z (Z.of_nat (cell G t)) + side G.
Proof.
  intros S L U. unfold cell. set (u := (t - low G) / side G).
  assert (E : t == low G + side G * u) by (unfold u; field; lra).
  assert (N : 0 <= u) by (unfold u; apply Qle_shift_div_l; lra).
  assert (B : u < inject_Z (Z.of_nat (cells G))) by nra.
  assert (Z : (0 <= Qfloor u)%Z) by (rewrite <- (Qfloor_Z 0); apply Qfloor_resp_le; trivial).
  pose proof (Qfloor_le u) as F. pose proof (Qlt_floor u) as C.
  rewrite Z2Nat.id by trivial. rewrite inject_Z_plus in C. change (inject_Z 1) with 1 in C.
  split; [|split; [rewrite E|rewrite E]; nra].
  assert (K : inject_Z (Qfloor u) < inject_Z (Z.of_nat (cells G))) by lra.
  rewrite <- Zlt_Qlt in K. lia.
Qed.

Theorem compare_cells_ok T G n values :
  compare_cells T G n values = AllCells -> has_values T G n values.
Proof.
  unfold compare_cells. destruct (positive (side G)) eqn:S; [|easy]. apply positive_iff in S.
  destruct (find _ _) eqn:F; [easy|]. intros _ x N D H.
  set (qs := map (map (cell G)) x).
  assert (R : right_in T G values qs = true).
  { apply negb_false_iff. apply (find_none _ _ F). unfold qs. rewrite <- N, <- (map_length (map (cell G))).
    apply words_all. intros q I. apply in_map_iff in I as (t & <- & I).
    rewrite <- (D t I), <- (map_length (cell G)). apply words_all. intros k K.
    apply in_map_iff in K as (p & <- & K). apply in_seq.
    destruct (H t p I K) as (L & U). destruct (cell_ok G p S L U) as (C & _). lia. }
  unfold right_in in R. destruct (run_cells T (width G) (map (box_of G) qs)) as [found|] eqn:E; [|easy].
  assert (M : map (number G) qs = numbers G x) by (unfold qs, numbers; now rewrite map_map).
  rewrite M in R. eapply equal_sequences_ok; [|exact R].
  eapply run_cells_ok; [|exact D|exact E]. clear - S H. unfold qs.
  induction x as [|t x IH]; cbn [map]; constructor; [|apply IH; intros u q U; apply H; now right].
  assert (I : forall q, In q t -> low G <= q < low G + side G * inject_Z (Z.of_nat (cells G)))
    by (intros q Q; apply (H t); trivial; now left).
  clear - S I. unfold box_of. induction t as [|q t IH]; cbn [map]; constructor.
  - destruct (I q (or_introl eq_refl)) as (L & U). destruct (cell_ok G q S L U) as (_ & A & B).
    split; trivial.
  - apply IH. intros p P. apply I. now right.
Qed.

(** The same, for bounds and sizes as a file writes them. *)
Definition fits (G : grid) (d : nat) (lo hi : Q) : bool :=
  if Nat.eqb (width G) d then
    if Qeq_bool lo (low G) then Qeq_bool hi (low G + side G * inject_Z (Z.of_nat (cells G))) else false
  else false.

Theorem values_on_cells T G n values d lo hi :
  (if fits G d lo hi then compare_cells T G n values else NoGrid) = AllCells ->
  forall x : list vector,
    length x = n -> (forall t, In t x -> length t = d) ->
    (forall t q, In t x -> In q t -> lo <= q < hi) ->
    equals (run T x) (listed G values (numbers G x)).
Proof.
  unfold fits. destruct (Nat.eqb _ _) eqn:D; [|easy]. destruct (Qeq_bool lo _) eqn:L; [|easy].
  destruct (Qeq_bool hi _) eqn:H; [|easy]. apply Nat.eqb_eq in D. apply Qeq_bool_iff in L, H.
  intros C x N E I. apply (compare_cells_ok T G n values C); trivial; [now rewrite D|].
  intros t q T' Q'. destruct (I t q T' Q') as (A & B). split; [now rewrite <- L|now rewrite <- H].
Qed.

(** Proves that a model has the values of a table: one evaluation by the kernel's virtual machine. *)
Ltac by_cells :=
  lazymatch goal with
  | |- forall x, length x = ?n -> (forall t, _ -> length t = ?d) ->
         (forall u q, _ -> _ -> ?lo <= q < ?hi) -> equals (run ?T _) (listed ?G ?values _) =>
      refine (values_on_cells T G n values d lo hi _); vm_cast_no_check (eq_refl AllCells)
  end.

(** Prints what the comparison says of such a goal. *)
Ltac diagnose_cells :=
  lazymatch goal with
  | |- forall x, length x = ?n -> (forall t, _ -> length t = ?d) ->
         (forall u q, _ -> _ -> ?lo <= q < ?hi) -> equals (run ?T _) (listed ?G ?values _) =>
      let v := eval vm_compute in (if fits G d lo hi then compare_cells T G n values else NoGrid) in
      idtac "verdict:" v
  end.
