(** What a fused form computes in floating-point arithmetic: b + P_1(t_1) + ... + P_n(t_n) with
    t_i = F_i (x - c), every operation rounded, sums in any order, multiplications fused with additions
    or not. The P_i are given by coefficients of powers or of Chebyshev polynomials.

    This file only defines. Rounding is Flocq's: to nearest, ties to even, with gradual underflow. It
    knows no infinities; so the largest number on the way is kept, and a law says that it is below the
    limit of the format, where IEEE 754 arithmetic is this rounding. *)

From Coq Require Import Reals QArith Qreals List Permutation.
From Flocq Require Import Core.
Import ListNotations.
Open Scope R_scope.

(** Digits, the exponent of the least positive number, and that of the numbers that are too large. *)
Record format := Format { digits : Z; lowest : Z; highest : Z }.
Definition binary64 : format := Format 53 (-1074) 1024.
Definition binary32 : format := Format 24 (-149) 128.

Definition grid (f : format) : Z -> Z := FLT_exp (lowest f) (digits f).
Definition rnd (f : format) (a : R) : R := round radix2 (grid f) ZnearestE a.

(** ** Sums *)

Inductive leaf := Term (a : R) | Product (a b : R).

(** [summed f k l v m]: added up in some order, in which no leaf meets more than k roundings, the leaves
    l give v; no number on the way is larger than m. Leaves that are zero may be left out: to add zero
    changes no float. *)
Inductive summed (f : format) : nat -> list leaf -> R -> R -> Prop :=
  | sum_term a : summed f 0 [Term a] a (Rabs a)
  | sum_product a b : summed f 1 [Product a b] (rnd f (a * b)) (Rabs (rnd f (a * b)))
  | sum_add k l l' u v m m' :
      summed f k l u m -> summed f k l' v m' ->
      summed f (S k) (l ++ l') (rnd f (u + v)) (Rmax (Rmax m m') (Rabs (rnd f (u + v))))
  | sum_fused k l a b v m :
      summed f k l v m ->
      summed f (S k) (Product a b :: l) (rnd f (a * b + v)) (Rmax m (Rabs (rnd f (a * b + v))))
  | sum_less k l v m : summed f k l v m -> summed f (S k) l v m
  | sum_order k l l' v m : Permutation l l' -> summed f k l v m -> summed f k l' v m.

(** ** Tokens *)

(** x - c; nothing is subtracted where c is zero. *)
Fixpoint shifted (f : format) (x : list R) (c : list Q) : list R :=
  match x, c with
  | a :: x, q :: c => (if Z.eqb (Qnum q) 0 then a else rnd f (a - rnd f (Q2R q))) :: shifted f x c
  | _, _ => []
  end.

Fixpoint leaves (f : format) (row : list Q) (y : list R) : list leaf :=
  match row, y with
  | q :: row, a :: y =>
      if Z.eqb (Qnum q) 0 then leaves f row y else Product (rnd f (Q2R q)) a :: leaves f row y
  | _, _ => []
  end.

(** t = F y: a sum of products in any order. *)
Definition feature_is (f : format) (row : list Q) (y : list R) (t m : R) : Prop :=
  match leaves f row y with
  | [] => t = 0 /\ m = 0
  | l => summed f (length l) l t m
  end.

(** Horner's rule for c_1 + c_2 t + ..., lowest first. *)
Inductive horner (f : format) (t : R) : list Q -> R -> R -> Prop :=
  | horner_none : horner f t [] 0 0
  | horner_last c : horner f t [c] (rnd f (Q2R c)) (Rabs (rnd f (Q2R c)))
  | horner_step c c' l p m :
      horner f t (c' :: l) p m ->
      horner f t (c :: c' :: l) (rnd f (rnd f (p * t) + rnd f (Q2R c)))
        (Rmax (Rmax m (Rabs (rnd f (p * t)))) (Rabs (rnd f (rnd f (p * t) + rnd f (Q2R c)))))
  | horner_fused c c' l p m :
      horner f t (c' :: l) p m ->
      horner f t (c :: c' :: l) (rnd f (p * t + rnd f (Q2R c)))
        (Rmax m (Rabs (rnd f (p * t + rnd f (Q2R c))))).

(** Clenshaw's recurrence for c_1 T_1(t) + c_2 T_2(t) + ..., lowest first: b_1 and b_2 of
    b_s = c_s + 2 t b_(s+1) - b_(s+2). None of the three meets more than two roundings. *)
Inductive clenshaw (f : format) (t : R) : list Q -> R -> R -> R -> Prop :=
  | clenshaw_none : clenshaw f t [] 0 0 0
  | clenshaw_last c : clenshaw f t [c] (rnd f (Q2R c)) 0 (Rabs (rnd f (Q2R c)))
  | clenshaw_step c l b b' m v s :
      clenshaw f t l b b' m ->
      summed f 2 [Term (rnd f (Q2R c)); Term (- b'); Product (2 * t) b] v s ->
      clenshaw f t (c :: l) v b (Rmax m s).

Inductive basis := Powers | Chebyshev.

(** The value of a token: t (c_1 + c_2 t + ...), a product that is still to be rounded, or
    t b_1 - b_2. *)
Inductive value_is (f : format) (t : R) : basis -> list Q -> leaf -> R -> Prop :=
  | value_horner c p m : horner f t c p m -> value_is f t Powers c (Product p t) m
  | value_clenshaw c b b' m v s :
      clenshaw f t c b b' m -> summed f 2 [Product t b; Term (- b')] v s ->
      value_is f t Chebyshev c (Term v) (Rmax (Rmax m s) (Rabs (2 * t))).

Inductive values (f : format) (B : basis) (y : list R)
    : list (list Q * list Q) -> list leaf -> R -> Prop :=
  | no_value : values f B y [] [] 0
  | one_value row c t m a m' rest l M :
      feature_is f row y t m -> value_is f t B c a m' -> values f B y rest l M ->
      values f B y ((row, c) :: rest) (a :: l) (Rmax (Rmax m m') M).

(** A fused form of one output: the centre c, the basis, rows of F with the coefficients of t, t^2, ...
    or of T_1(t), T_2(t), ..., and b. *)
Record form := Form { about : list Q; in_basis : basis; ridges_of : list (list Q * list Q); offset : Q }.

(** [computes f F x v m]: at x the form F gives v, in some order of additions; no number on the way is
    larger than m. In any order of n + 1 leaves none meets more than n + 1 roundings. *)
Definition computes (f : format) (F : form) (x : list R) (v m : R) : Prop :=
  exists l M s,
    values f (in_basis F) (shifted f x (about F)) (ridges_of F) l M /\
    summed f (S (length (ridges_of F))) (Term (rnd f (Q2R (offset F))) :: l) v s /\
    m = Rmax M s.

(** Numbers from here on are infinite in the format. *)
Definition too_large (f : format) : R := bpow radix2 (highest f).
