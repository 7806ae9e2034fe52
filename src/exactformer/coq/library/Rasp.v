(** Programs on sequences, in the language RASP, and what they compute.

    This file only defines: it is what a reader must believe a program to be. *)

From Coq Require Import QArith String Bool List.
From Exactformer Require Import HardAttention.
Import ListNotations.
Open Scope Q_scope.

(** ** Values *)

(** Numbers are in lowest terms. A tuple (a, b) is [Pair a (Pair b End)]. *)
Inductive value :=
  | Nothing
  | Number (q : Q)
  | Text (s : string)
  | End
  | Pair (first rest : value).

Fixpoint same (a b : value) : bool :=
  match a, b with
  | Nothing, Nothing | End, End => true
  | Number p, Number q => if Z.eqb (Qnum p) (Qnum q) then Pos.eqb (Qden p) (Qden q) else false
  | Text s, Text t => String.eqb s t
  | Pair a b, Pair c d => if same a c then same b d else false
  | _, _ => false
  end.

Definition count (n : nat) : value := Number (inject_Z (Z.of_nat n)).

(** ** Expressions

    Every position has a row of values. Entry 0 is its token and entry 1 its place, from 0. Every
    node of a program adds one entry, computed from earlier ones, which are named by their places. *)

Definition row := list value.
Definition entry (k : nat) (r : row) : value := nth k r Nothing.

Inductive comparison :=
  | Equal | Different | Less | AtMost | More | AtLeast | Always | Never.

(** A test of a key and a query: a comparison, or a list of the pairs that pass or do not. *)
Inductive test :=
  | Compare (c : comparison)
  | Listed (pairs : list (value * value))
  | Unlisted (pairs : list (value * value)).

Inductive selector :=
  | Select (keys queries : nat) (t : test)
  | And (s t : selector)
  | Or (s t : selector)
  | Not (s : selector).

Inductive node :=
  | Constant (v : value)
  | Map (k : nat) (table : list (value * value))
  | Combine (j k : nat) (table : list (value * value * value))
  | Linear (a : Q) (j : nat) (b : Q) (k : nat)     (* a x + b y *)
  | Width (s : selector)                           (* how many positions are selected *)
  | Aggregate (s : selector) (k : nat) (default : value).

(** ** Their values; [None] where there is none *)

Definition ordered (a b : value) : option (Datatypes.comparison) :=
  match a, b with
  | Number p, Number q => Some (Qcompare p q)
  | Text s, Text t => Some (String.compare s t)
  | _, _ => None
  end.

Definition compares (c : comparison) (key query : value) : option bool :=
  let by_order (f : Datatypes.comparison -> bool) := option_map f (ordered key query) in
  match c with
  | Equal => Some (same key query)
  | Different => Some (negb (same key query))
  | Less => by_order (fun o => match o with Lt => true | _ => false end)
  | AtMost => by_order (fun o => match o with Gt => false | _ => true end)
  | More => by_order (fun o => match o with Gt => true | _ => false end)
  | AtLeast => by_order (fun o => match o with Lt => false | _ => true end)
  | Always => Some true
  | Never => Some false
  end.

Definition among (key query : value) (pairs : list (value * value)) : bool :=
  existsb (fun pair => if same (fst pair) key then same (snd pair) query else false) pairs.

Definition passes (t : test) (key query : value) : option bool :=
  match t with
  | Compare c => compares c key query
  | Listed pairs => Some (among key query pairs)
  | Unlisted pairs => Some (negb (among key query pairs))
  end.

(** Whether the position with the row [q] selects that with the row [k]. *)
Fixpoint selects (s : selector) (q k : row) : option bool :=
  match s with
  | Select keys queries t => passes t (entry keys k) (entry queries q)
  | And s t => match selects s q k with Some true => selects t q k | found => found end
  | Or s t => match selects s q k with Some false => selects t q k | found => found end
  | Not s => option_map negb (selects s q k)
  end.

(** All of several optional things, or none. *)
Fixpoint all {X} (l : list (option X)) : option (list X) :=
  match l with
  | [] => Some []
  | Some x :: rest => option_map (cons x) (all rest)
  | None :: _ => None
  end.

(** The rows that are selected, in order. *)
Fixpoint selected (s : selector) (q : row) (seen : list row) : option (list row) :=
  match seen with
  | [] => Some []
  | k :: rest =>
      match selects s q k, selected s q rest with
      | Some b, Some chosen => Some (if b then k :: chosen else chosen)
      | _, _ => None
      end
  end.

Fixpoint sum_of (values : list value) : option Q :=
  match values with
  | [] => Some 0
  | Number q :: rest => option_map (Qplus q) (sum_of rest)
  | _ :: _ => None
  end.

(** The value that selected ones share, else the mean of numbers; a default where there are none. *)
Definition average (values : list value) (default : value) : option value :=
  match values with
  | [] => Some default
  | v :: rest =>
      if forallb (same v) rest then Some v
      else option_map (fun q => Number (Qred (q / inject_Z (Z.of_nat (length values)))))
             (sum_of values)
  end.

Definition linear (a b : Q) (x y : value) : option value :=
  match x, y with
  | Number p, Number q => Some (Number (Qred (a * p + b * q)))
  | Nothing, Number _ | Number _, Nothing | Nothing, Nothing => Some Nothing
  | _, _ => None
  end.

Definition node_value (n : node) (r : row) (seen : list row) : option value :=
  match n with
  | Constant v => Some v
  | Map k table => option_map snd (find (fun line => same (fst line) (entry k r)) table)
  | Combine j k table =>
      option_map snd (find (fun line =>
        if same (fst (fst line)) (entry j r) then same (snd (fst line)) (entry k r) else false) table)
  | Linear a j b k => linear a b (entry j r) (entry k r)
  | Width s => option_map (fun chosen => count (length chosen)) (selected s r seen)
  | Aggregate s k default =>
      match selected s r seen with
      | Some chosen => average (map (entry k) chosen) default
      | None => None
      end
  end.

(** ** A program: its nodes in stages, and which entry is the output

    Nodes of a stage are computed side by side, from the entries of earlier stages. *)

Record rasp := Program { looks_back : bool; stages : list (list node); result : nat }.

Definition add_stage (causal : bool) (rows : list row) (ns : list node) : option (list row) :=
  all (numbered (fun i r =>
    option_map (app r) (all (map (fun n => node_value n r (seen causal rows i)) ns))) rows).

Fixpoint add_stages (causal : bool) (stages : list (list node)) (rows : list row)
    : option (list row) :=
  match stages with
  | [] => Some rows
  | ns :: rest =>
      match add_stage causal rows ns with
      | Some rows => add_stages causal rest rows
      | None => None
      end
  end.

Definition first_rows (input : list value) : list row := numbered (fun i x => [x; count i]) input.

(** The output of a program at every position of an input. *)
Definition eval (P : rasp) (input : list value) : option (list value) :=
  option_map (map (entry (result P))) (add_stages (looks_back P) (stages P) (first_rows input)).

(** ** A transformer on sequences of tokens *)

Record transformer := Transformer {
  tokens : list vector;        (* embeddings; the last is the beginning token's, where there is one *)
  positions : list vector;
  beginning : bool;            (* whether sequences begin with a token of their own *)
  causal : bool;
  layers : list layer;
  readout : matrix
}.

(** What is read out at every position of an input, whose tokens are given by number. *)
Definition run (T : transformer) (ids : list nat) : list vector :=
  let numbers := if beginning T then (length (tokens T) - 1)%nat :: ids else ids in
  let z := numbered (fun i k => add (nth k (tokens T) []) (nth i (positions T) [])) numbers in
  let z := run_layers (causal T) (layers T) z in
  map (times (readout T)) (if beginning T then tl z else z).

(** How outputs are read: one direction per value, of which exactly one is 1 and the others are 0; or
    a number. *)
Inductive reading := Directions (values : list value) | Numbers.

Fixpoint indicated (values : list value) (v : vector) : option value :=
  match values, v with
  | x :: values, q :: v =>
      if Qeq_bool q 1 then (if forallb (Qeq_bool 0) v then Some x else None)
      else if Qeq_bool q 0 then indicated values v else None
  | _, _ => None
  end.

Definition decode (how : reading) (v : vector) : option value :=
  match how, v with
  | Directions values, _ => indicated values v
  | Numbers, [q] => Some (Number (Qred q))
  | Numbers, _ => None
  end.

(** The number of a token: its place in the vocabulary. *)
Fixpoint place (vocabulary : list value) (x : value) : option nat :=
  match vocabulary with
  | [] => None
  | v :: rest => if same v x then Some O else option_map S (place rest x)
  end.

Definition encode (vocabulary input : list value) : option (list nat) :=
  all (map (place vocabulary) input).

(** What the model answers to an input: tokens to numbers, the transformer, outputs to values. *)
Definition answer (T : transformer) (vocabulary : list value) (how : reading) (input : list value)
    : option (list value) :=
  match encode vocabulary input with
  | Some ids => all (map (decode how) (run T ids))
  | None => None
  end.
