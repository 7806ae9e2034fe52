(** What layers with hard attention compute, over the rational numbers.

    This file only defines. With [Rasp] or [Grids] it is all that a reader must believe of a theorem
    about a program or a sequence map, besides Coq's kernel. Weights are rational, and a hard maximum
    averages over equals: rational numbers in, rational numbers out. Nothing is rounded, so no real
    number and no axiom is needed. Sums and products are kept in lowest terms. *)

From Coq Require Import QArith List.
Import ListNotations.
Open Scope Q_scope.

(** ** Numbers, vectors, matrices *)

Definition plus (a b : Q) : Q :=
  match Qden a, Qden b with
  | xH, xH => (Qnum a + Qnum b) # 1   (* integers are in lowest terms already *)
  | _, _ => Qred (a + b)
  end.

Definition mult (a b : Q) : Q :=
  match Qden a, Qden b with
  | xH, xH => (Qnum a * Qnum b) # 1
  | _, _ => Qred (a * b)
  end.

(** Entries beyond the end of a vector are zero. *)
Definition vector := list Q.

(** A row by the entries that are not zero: (place, entry), places from 0. *)
Definition sparse := list (nat * Q).

(** A matrix by its rows; rows beyond the last are zero. *)
Definition matrix := list sparse.

(** Short forms for matrices, and the notation for an entry of a row: column |-> number. *)
Definition diagonal (first count : nat) (q : Q) : matrix :=
  map (fun i => [(i, q)]) (seq first count).
Definition blank (count : nat) : matrix := repeat [] count.

Declare Scope model_scope.
Notation "j |-> q" := (@pair nat Q j%nat q%Q) (at level 60) : model_scope.

Fixpoint row_times (row : sparse) (v : vector) : Q :=
  match row with
  | [] => 0
  | (j, q) :: rest => plus (mult q (nth j v 0)) (row_times rest v)
  end.

Definition times (M : matrix) (v : vector) : vector := map (fun row => row_times row v) M.

Fixpoint add (v w : vector) : vector :=
  match v, w with
  | [], _ => w
  | _, [] => v
  | a :: v, b :: w => plus a b :: add v w
  end.

(** The vector with these entries. *)
Definition dense (row : sparse) : vector :=
  fold_right (fun e v => add (repeat 0 (fst e) ++ [snd e]) v) [] row.

Fixpoint dot (v w : vector) : Q :=
  match v, w with
  | a :: v, b :: w => plus (mult a b) (dot v w)
  | _, _ => 0
  end.

(** The sum of several vectors, and their mean. *)
Definition total (vs : list vector) : vector := fold_left add vs [].
Definition mean (vs : list vector) : vector :=
  map (mult (/ inject_Z (Z.of_nat (length vs)))) (total vs).

(** The largest of several numbers; of equals, the first as it is written. *)
Definition larger (a b : Q) : Q := if Qle_bool b a then a else b.
Definition largest (l : list Q) : Q :=
  match l with [] => 0 | a :: rest => fold_left larger rest a end.

(** ** Attention *)

(** W_Q with its bias, W_K, W_V, and W_O where the head has one. *)
Record head := Head {
  query : matrix; bias : vector; key : matrix; value : matrix; output : option matrix }.

Definition write (h : head) (v : vector) : vector :=
  match output h with Some M => times M v | None => v end.

(** What a head adds to the token z, which sees some tokens, at least one. The scores are
    ⟨W_Q z + b_Q, W_K z_j⟩; the tokens with the largest score are averaged. *)
Definition attend (h : head) (z : vector) (seen : list vector) : vector :=
  let q := add (times (query h) z) (bias h) in
  let scored := map (fun s => (dot q (times (key h) s), times (value h) s)) seen in
  let top := largest (map fst scored) in
  let chosen := filter (fun pair => Qeq_bool (fst pair) top) scored in
  write h (mean (map snd chosen)).

(** ** Feed-forward *)

(** A piecewise linear function: a first piece (slope, intercept), and pieces that begin at breaks,
    in ascending order. *)
Record activation := Pieces { first : Q * Q; later : list (Q * (Q * Q)) }.

Fixpoint piece_at (piece : Q * Q) (later : list (Q * (Q * Q))) (t : Q) : Q * Q :=
  match later with
  | (break, next) :: rest => if Qle_bool break t then piece_at next rest t else piece
  | [] => piece
  end.

Definition activate (f : activation) (t : Q) : Q :=
  let (slope, intercept) := piece_at (first f) (later f) t in plus (mult slope t) intercept.

Definition Relu : activation := Pieces (0, 0) [(0, (1, 0))].

Record feed_forward := Feed {
  activated_by : activation; w1 : matrix; b1 : vector; w2 : matrix; b2 : vector }.

(** z + W_2 φ(W_1 z + b_1) + b_2. *)
Definition feed (f : feed_forward) (z : vector) : vector :=
  let hidden := map (activate (activated_by f)) (add (times (w1 f) z) (b1 f)) in
  add z (add (times (w2 f) hidden) (b2 f)).

(** ** Layers *)

Inductive layer :=
  | Attention (heads : list head)
  | FeedForward (f : feed_forward).

Definition stream := list vector.

(** What position i sees: everything, or in a causal model what does not come after it. *)
Definition seen {X} (causal : bool) (l : list X) (i : nat) : list X :=
  if causal then firstn (S i) l else l.

(** f i x for every x of a list, with its place i. *)
Fixpoint numbered_from {X Y} (f : nat -> X -> Y) (i : nat) (l : list X) : list Y :=
  match l with
  | [] => []
  | x :: rest => f i x :: numbered_from f (S i) rest
  end.
Definition numbered {X Y} (f : nat -> X -> Y) (l : list X) : list Y := numbered_from f 0 l.

Definition run_layer (causal : bool) (z : stream) (l : layer) : stream :=
  match l with
  | Attention heads =>
      numbered (fun i zi =>
        fold_left (fun sum h => add sum (attend h zi (seen causal z i))) heads zi) z
  | FeedForward f => map (feed f) z
  end.

Definition run_layers (causal : bool) (layers : list layer) (z : stream) : stream :=
  fold_left (run_layer causal) layers z.
