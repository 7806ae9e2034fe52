(** What a transformer with rational weights computes, over the real numbers.

    This file only defines. It is all that a reader must believe, besides Coq's kernel and Coq's own
    real numbers. Nothing here is used to compute. *)

From Coq Require Import Reals QArith Qreals List.
Import ListNotations.
Open Scope R_scope.

(** ** Vectors and matrices *)

Definition vector := nat -> R.

(** A row or a vector by the entries that are not zero: (place, entry), places from 0. *)
Definition sparse := list (nat * Q).

(** A matrix by its rows. *)
Definition matrix := list sparse.

(** Short forms for matrices: [count] rows with the one entry q, at [first], [first + 1], ...;
    [count] rows of zeros. *)
Definition diagonal (first count : nat) (q : Q) : matrix :=
  map (fun i => [(i, q)]) (seq first count).
Definition blank (count : nat) : matrix := repeat [] count.

(** f 0 + ... + f (n - 1). *)
Fixpoint sum (f : nat -> R) (n : nat) : R :=
  match n with
  | O => 0
  | S m => f O + sum (fun k => f (S k)) m
  end.

Fixpoint row_times (row : sparse) (v : vector) : R :=
  match row with
  | [] => 0
  | (j, q) :: rest => Q2R q * v j + row_times rest v
  end.

Definition times (M : matrix) (v : vector) : vector := fun i => row_times (nth i M []) v.

Fixpoint dense (row : sparse) : vector := fun d =>
  match row with
  | [] => 0
  | (j, q) :: rest => (if Nat.eqb j d then Q2R q else 0) + dense rest d
  end.

(** ** Attention *)

(** Row i is token i. *)
Definition stream := nat -> vector.

Record head := BiasedHead { query : matrix; bias : sparse; key : matrix; value : matrix }.

(** A head whose query has no bias. *)
Definition Head (query key value : matrix) : head := BiasedHead query [] key value.

(** ⟨W_Q z_i + b_Q, W_K z_j⟩. *)
Definition score (h : head) (z : stream) (i j : nat) : R :=
  sum (fun r => (times (query h) (z i) r + dense (bias h) r) * times (key h) (z j) r)
    (length (query h)).

(** Where the largest of s 0, ..., s (n - 1) stands; the first of equals. *)
Fixpoint argmax (s : nat -> R) (n : nat) : nat :=
  match n with
  | O => O
  | S m => if Rlt_dec (s (argmax s m)) (s m) then m else argmax s m
  end.

(** How many of s 0, ..., s (n - 1) are m. *)
Fixpoint count (s : nat -> R) (m : R) (n : nat) : nat :=
  match n with
  | O => O
  | S k => (if Req_EM_T (s k) m then S (count s m k) else count s m k)
  end.

Inductive rule :=
  | OneHotMax   (** keep the largest score as it is, set the others to 0 *)
  | HardMax.    (** weight 1 on the largest score; equals share it *)

Definition weight (how : rule) (s : nat -> R) (n j : nat) : R :=
  match how with
  | OneHotMax => if Nat.eqb j (argmax s n) then s j else 0
  | HardMax =>
      let largest := s (argmax s n) in
      if Req_EM_T (s j) largest then 1 / INR (count s largest n) else 0
  end.

Definition attend (n : nat) (how : rule) (h : head) (z : stream) (i : nat) : vector := fun d =>
  sum (fun j => weight how (score h z i) n j * times (value h) (z j) d) n.

(** z_i plus what every head adds. *)
Fixpoint attention (n : nat) (how : rule) (heads : list head) (z : stream) (i : nat) : vector :=
  fun d =>
  match heads with
  | [] => z i d
  | h :: rest => attend n how h z i d + attention n how rest z i d
  end.

(** ** Feed-forward *)

Inductive activation := Relu | Identity.

Record feed_forward := FeedForward {
  activated_by : activation; w1 : matrix; b1 : sparse; w2 : matrix; b2 : sparse }.

Definition activate (f : activation) (a : R) : R :=
  match f with Relu => Rmax 0 a | Identity => a end.

(** v + W_2 φ(W_1 v + b_1) + b_2. *)
Definition feed (f : feed_forward) (v : vector) : vector := fun d =>
  v d
  + (times (w2 f) (fun u => activate (activated_by f) (times (w1 f) v u + dense (b1 f) u)) d
     + dense (b2 f) d).

(** ** The whole transformer *)

Record block := Block { selects_by : rule; heads : list head; feeding : feed_forward }.

Definition run_block (n : nat) (b : block) (z : stream) : stream :=
  fun i => feed (feeding b) (attention n (selects_by b) (heads b) z i).

(** ⟨row, x⟩ for a row of F. *)
Fixpoint linear (row : list Q) (x : list R) : R :=
  match row, x with
  | q :: row, a :: x => Q2R q * a + linear row x
  | _, _ => 0
  end.

Record transformer := Transformer {
  features : list (list Q);        (* F, one row per token *)
  feature : nat;                   (* the dimension that F x is added at *)
  constant : matrix;               (* one row per token *)
  blocks : list block;
  readouts : list (matrix * Q)     (* beta and b of every output *)
}.

Definition tokens (T : transformer) : nat := length (features T).

Definition embed (T : transformer) (x : list R) : stream := fun i d =>
  dense (nth i (constant T) []) d
  + (if Nat.eqb (feature T) d then linear (nth i (features T) []) x else 0).

Definition read (n : nat) (r : matrix * Q) (z : stream) : R :=
  Q2R (snd r) + sum (fun i => row_times (nth i (fst r) []) (z i)) n.

Definition run (T : transformer) (x : list R) : list R :=
  let n := tokens T in
  let z := fold_left (fun z b => run_block n b z) (blocks T) (embed T x) in
  map (fun r => read n r z) (readouts T).
