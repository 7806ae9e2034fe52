(** Maps of sequences that are given by a table on a grid, and transformers for them.

    This file only defines: with [HardAttention], it is all that a reader must believe. *)

From Coq Require Import QArith Qround List.
From Exactformer Require Import HardAttention.
Import ListNotations.
Open Scope Q_scope.

(** ** The transformer: sequences of vectors to sequences of vectors *)

Record transformer := Transformer {
  features : matrix;           (* token i is features · x_i + constant + places_i *)
  constant : vector;
  places : list vector;
  layers : list layer;
  readout : matrix
}.

Definition embed (T : transformer) (i : nat) (x : vector) : vector :=
  add (times (features T) x) (add (constant T) (nth i (places T) [])).

Definition run (T : transformer) (x : list vector) : list vector :=
  map (times (readout T)) (run_layers false (layers T) (numbered (embed T) x)).

(** ** The table *)

(** A token has [width] coordinates. Each lies in [low, low + cells · side), which is cut into so many
    cells. [ordered] says whether the map depends on the order of the tokens. *)
Record grid := Grid { low : Q; side : Q; cells : nat; width : nat; ordered : bool }.

(** The cell of a coordinate, from 0; the number q_1 + N q_2 + N² q_3 + ... of the cells of a token. *)
Definition cell (G : grid) (t : Q) : nat := Z.to_nat (Qfloor ((t - low G) / side G)).
Definition number (G : grid) (qs : list nat) : nat :=
  fold_right (fun q rest => (q + cells G * rest)%nat) 0%nat qs.
Definition numbers (G : grid) (x : list vector) : list nat :=
  map (fun t => number G (map (cell G) t)) x.

(** The values of the tokens by their numbers: in the order of the sequence, or, where the map treats
    all orders alike, in ascending order. Sequences that are not listed go to zero. *)
Definition table := list (list nat * list vector).

Fixpoint insert (k : nat) (l : list nat) : list nat :=
  match l with
  | [] => [k]
  | m :: rest => if Nat.leb k m then k :: l else m :: insert k rest
  end.
Definition ascending (l : list nat) : list nat := fold_right insert [] l.

Fixpoint equal (l m : list nat) : bool :=
  match l, m with
  | [], [] => true
  | a :: l, b :: m => if Nat.eqb a b then equal l m else false
  | _, _ => false
  end.

Fixpoint place (k : nat) (l : list nat) : nat :=
  match l with
  | [] => O
  | m :: rest => if Nat.eqb k m then O else S (place k rest)
  end.

Definition listed (G : grid) (values : table) (ids : list nat) : list vector :=
  let name := if ordered G then ids else ascending ids in
  match find (fun line => equal (fst line) name) values with
  | None => map (fun _ => repeat 0 (width G)) ids
  | Some (_, columns) =>
      if ordered G then columns else map (fun k => nth (place k name) columns []) ids
  end.

(** ** Equal sequences: the same rational numbers *)

Definition equals (l m : list vector) : Prop := Forall2 (Forall2 Qeq) l m.
