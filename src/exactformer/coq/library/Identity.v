(** Polynomials in several variables: the transformer's output, multiplied out, is the target. *)

From Coq Require Import Reals QArith Qreals List Lra Lia.
From Exactformer Require Import Semantics Rationals OneVariable Domains.
Import ListNotations.
Open Scope R_scope.

(** ** The target as an expression. [eval] gives back what one would write. *)

Inductive expr :=
  | Const (q : Q)
  | Var (j : nat)
  | Opp (a : expr)
  | Add (a b : expr)
  | Sub (a b : expr)
  | Mul (a b : expr)
  | Pow (a : expr) (n : nat).

Fixpoint eval (x : list R) (e : expr) : R :=
  match e with
  | Const q => real q
  | Var j => nth j x 0
  | Opp a => - eval x a
  | Add a b => eval x a + eval x b
  | Sub a b => eval x a - eval x b
  | Mul a b => eval x a * eval x b
  | Pow a n => eval x a ^ n
  end.

(** ** Polynomials in d variables: by powers of the first, with coefficients in the others *)

Fixpoint mpoly (d : nat) : Type := match d with O => Q | S d => list (mpoly d) end.

Fixpoint meval (d : nat) (x : list R) : mpoly d -> R :=
  match d return mpoly d -> R with
  | O => fun p => Q2R p
  | S d => fun p => fold_right (fun c e => meval d (tl x) c + hd 0 x * e) 0 p
  end.

Definition mzero (d : nat) : mpoly d := match d with O => 0%Q | S _ => [] end.

Fixpoint mconst (d : nat) (q : Q) : mpoly d :=
  match d with O => q | S d => [mconst d q] end.

Fixpoint mvar (d j : nat) : mpoly d :=
  match d, j with
  | O, _ => 0%Q
  | S d, O => [mzero d; mconst d 1]
  | S d, S j => [mvar d j]
  end.

Fixpoint merge {X} (add : X -> X -> X) (a b : list X) : list X :=
  match a, b with
  | [], _ => b
  | _, [] => a
  | x :: a, y :: b => add x y :: merge add a b
  end.

Fixpoint madd (d : nat) : mpoly d -> mpoly d -> mpoly d :=
  match d return mpoly d -> mpoly d -> mpoly d with O => qadd | S d => merge (madd d) end.

Fixpoint mscale (d : nat) (q : Q) : mpoly d -> mpoly d :=
  match d return mpoly d -> mpoly d with O => qmul q | S d => map (mscale d q) end.

Fixpoint vanishes (d : nat) : mpoly d -> bool :=
  match d return mpoly d -> bool with O => zero | S d => forallb (vanishes d) end.

Fixpoint mmul (d : nat) : mpoly d -> mpoly d -> mpoly d :=
  match d return mpoly d -> mpoly d -> mpoly d with
  | O => qmul
  | S d => fun p q =>
      fold_right (fun c e =>
        let rest := mzero d :: e in
        if vanishes d c then rest else merge (madd d) (map (mmul d c) q) rest) [] p
  end.

Fixpoint mpow (d : nat) (p : mpoly d) (n : nat) : mpoly d :=
  match n with O => mconst d 1 | S n => mmul d p (mpow d p n) end.

Lemma meval_zero d x : meval d x (mzero d) = 0.
Proof. destruct d; simpl; [apply Q2R_0|reflexivity]. Qed.

Lemma meval_const d x q : meval d x (mconst d q) = Q2R q.
Proof. revert x; induction d as [|d IH]; intros x; simpl; trivial. rewrite IH. ring. Qed.

Lemma meval_var d j x : length x = d -> meval d x (mvar d j) = nth j x 0.
Proof.
  revert j x; induction d as [|d IH]; intros j [|a x] H; simpl in *; try discriminate.
  - rewrite Q2R_0. now destruct j.
  - destruct j as [|j]; simpl.
    + rewrite meval_zero, meval_const, Q2R_1. ring.
    + rewrite IH by lia. ring.
Qed.

Lemma meval_merge d x (IH : forall p q, meval d (tl x) (madd d p q) = meval d (tl x) p + meval d (tl x) q) :
  forall p q : mpoly (S d), meval (S d) x (merge (madd d) p q) = meval (S d) x p + meval (S d) x q.
Proof.
  intros p; induction p as [|a p IHp]; intros [|b q]; cbn [merge]; simpl in *; try ring.
  rewrite IH, IHp. ring.
Qed.

Lemma meval_add d x p q : meval d x (madd d p q) = meval d x p + meval d x q.
Proof.
  revert x p q; induction d as [|d IH]; intros x p q.
  - apply Q2R_qadd.
  - apply meval_merge. intros; apply IH.
Qed.

Lemma meval_scale d x c p : meval d x (mscale d c p) = Q2R c * meval d x p.
Proof.
  revert x p; induction d as [|d IH]; intros x p; [apply Q2R_qmul|].
  induction p as [|a p IHp]; simpl in *; [ring|]. rewrite IH, IHp. ring.
Qed.

Lemma vanishes_ok d x p : vanishes d p = true -> meval d x p = 0.
Proof.
  revert x p; induction d as [|d IH]; intros x p H; [now apply zero_ok|].
  induction p as [|a p IHp]; simpl in *; trivial.
  destruct (vanishes d a) eqn:E; [|discriminate]. rewrite (IH _ _ E), (IHp H). ring.
Qed.

Lemma meval_mul d x p q : meval d x (mmul d p q) = meval d x p * meval d x q.
Proof.
  revert x p q; induction d as [|d IH]; intros x p q; [apply Q2R_qmul|].
  assert (M : forall c, meval (S d) x (map (mmul d c) q) = meval d (tl x) c * meval (S d) x q).
  { intros c. induction q as [|b q IHq]; simpl in *; [ring|]. rewrite IH, IHq. ring. }
  induction p as [|a p IHp]; [simpl; ring|].
  change (meval (S d) x (a :: p)) with (meval d (tl x) a + hd 0 x * meval (S d) x p).
  cbn [mmul fold_right]. cbv zeta. set (e := fold_right _ _ p) in *.
  assert (E : meval (S d) x (mzero d :: e) = hd 0 x * (meval (S d) x p * meval (S d) x q)).
  { change (meval (S d) x (mzero d :: e)) with (meval d (tl x) (mzero d) + hd 0 x * meval (S d) x e).
    rewrite meval_zero. change e with (mmul (S d) p q). rewrite IHp. ring. }
  destruct (vanishes d a) eqn:V.
  - rewrite E, (vanishes_ok _ _ _ V). ring.
  - change (merge (madd d)) with (madd (S d)). rewrite meval_add, M, E. ring.
Qed.

Lemma meval_pow d x p n : meval d x (mpow d p n) = meval d x p ^ n.
Proof.
  induction n as [|n IH]; cbn [mpow pow]; [rewrite meval_const; apply Q2R_1|].
  now rewrite meval_mul, IH.
Qed.

(** ** The target, in u = x - c *)

Fixpoint expand (d : nat) (c : list Q) (e : expr) : mpoly d :=
  match e with
  | Const q => mconst d q
  | Var j => madd d (mvar d j) (mconst d (nth j c 0%Q))
  | Opp a => mscale d (-1) (expand d c a)
  | Add a b => madd d (expand d c a) (expand d c b)
  | Sub a b => madd d (expand d c a) (mscale d (-1) (expand d c b))
  | Mul a b => mmul d (expand d c a) (expand d c b)
  | Pow a n => mpow d (expand d c a) n
  end.

Lemma nth_minus j x c : length x = length c -> nth j x 0 = nth j (minus x c) 0 + Q2R (nth j c 0%Q).
Proof.
  revert j c; induction x as [|a x IH]; intros j [|q c] H; simpl in *; try discriminate.
  - destruct j; rewrite Q2R_0; ring.
  - destruct j; [ring|]. apply IH. lia.
Qed.

Lemma expand_ok c x e :
  length x = length c -> eval x e = meval (length c) (minus x c) (expand (length c) c e).
Proof.
  intros H. induction e; cbn [eval expand];
    rewrite ?meval_add, ?meval_scale, ?meval_mul, ?meval_pow, ?meval_const, ?Q2R_neg1;
    try congruence.
  - apply real_ok.
  - rewrite meval_var by (now apply minus_length). now apply nth_minus.
  - rewrite <- IHe. ring.
  - rewrite <- IHe1, <- IHe2. ring.
Qed.

(** ** A power of a linear form

    (g u + s)^k is the sum over a of the [pascal] coefficients times u^a s^(k - a). *)

Fixpoint pascal (g : Q) (k : nat) : list Q :=
  match k with
  | O => [1%Q]
  | S k => let l := pascal g k in padd l (0%Q :: map (qmul g) l)
  end.

(** c (row u)^k. *)
Fixpoint power (d : nat) (row : list Q) (k : nat) (c : Q) : mpoly d :=
  match k with
  | O => mconst d c
  | S _ =>
      if forallb zero row then mzero d else
      match d return mpoly d with
      | O => 0%Q
      | S d =>
          match row with
          | [] => []
          | g :: row =>
              if zero g then [power d row k c]
              else (fix coefficients (l : list Q) (k : nat) : list (mpoly d) :=
                      match l with
                      | [] => []
                      | b :: l => power d row k (qmul c b) :: coefficients l (pred k)
                      end) (pascal g k) k
          end
      end
  end.

(** sum of l_a u^a s^(k - a) *)
Fixpoint homogeneous (l : list Q) (k : nat) (u s : R) : R :=
  match l with [] => 0 | c :: l => Q2R c * s ^ k + u * homogeneous l (pred k) u s end.

Lemma homogeneous_add l l' k u s :
  homogeneous (padd l l') k u s = homogeneous l k u s + homogeneous l' k u s.
Proof.
  revert l' k; induction l as [|a l IH]; intros [|b l'] k; cbn [padd homogeneous]; try ring.
  rewrite IH. autorewrite with q2r. ring.
Qed.

Lemma homogeneous_scale g l k u s :
  homogeneous (map (qmul g) l) k u s = Q2R g * homogeneous l k u s.
Proof.
  revert k; induction l as [|a l IH]; intros k; cbn [map homogeneous]; [ring|].
  rewrite IH. autorewrite with q2r. ring.
Qed.

Lemma homogeneous_up l k u s :
  (length l <= S k)%nat -> homogeneous l (S k) u s = s * homogeneous l k u s.
Proof.
  revert k; induction l as [|a l IH]; intros k H; cbn [homogeneous]; [ring|].
  cbn [pred]. destruct l as [|b l]; [simpl; ring|].
  destruct k as [|k]; [simpl in H; lia|]. rewrite IH by (simpl in *; lia).
  cbn [pred]. simpl pow. ring.
Qed.

Lemma padd_length p q : length (padd p q) = max (length p) (length q).
Proof. revert q; induction p as [|a p IH]; intros [|b q]; simpl; trivial. now rewrite IH. Qed.

Lemma pascal_length g k : length (pascal g k) = S k.
Proof.
  induction k as [|k IH]; trivial. cbn [pascal]. rewrite padd_length.
  cbn [length]. rewrite map_length, IH. lia.
Qed.

Lemma pascal_ok g k u s : homogeneous (pascal g k) k u s = (Q2R g * u + s) ^ k.
Proof.
  induction k as [|k IH]; [simpl; rewrite Q2R_1; ring|].
  cbn [pascal]. cbv zeta. rewrite homogeneous_add, homogeneous_up by (rewrite pascal_length; lia).
  cbn [homogeneous pred]. rewrite homogeneous_scale, IH, Q2R_0. simpl. ring.
Qed.

Lemma linear_zero row x : forallb zero row = true -> linear row x = 0.
Proof.
  revert x; induction row as [|q row IH]; intros [|a x] H; simpl in *; trivial.
  destruct (zero q) eqn:Z; [|discriminate]. rewrite (zero_ok _ Z), (IH x H). ring.
Qed.

Lemma power_ok d row k c x : length x = d -> meval d x (power d row k c) = Q2R c * linear row x ^ k.
Proof.
  revert row k c x; induction d as [|d IH]; intros row k c x H.
  - destruct x; [|discriminate]. destruct k as [|k]; [simpl; ring|].
    assert (E : linear row [] = 0) by (now destruct row). rewrite E.
    cbn [power]. destruct (forallb zero row); simpl; rewrite Q2R_0; ring.
  - destruct x as [|a x]; [discriminate|]. destruct k as [|k]; cbn [power].
    { rewrite meval_const. simpl. ring. }
    destruct (forallb zero row) eqn:Z.
    { rewrite meval_zero, linear_zero by trivial. simpl. ring. }
    destruct row as [|g row]; [discriminate|]. cbn [linear].
    destruct (zero g) eqn:G.
    + apply zero_ok in G. rewrite G. simpl meval. rewrite IH by (simpl in H; lia).
      simpl. rewrite !Rmult_0_l, !Rplus_0_l. ring.
    + rewrite <- (pascal_ok g (S k) a (linear row x)). generalize (pascal g (S k)) as l.
      generalize (S k) as n. intros n l. revert n.
      induction l as [|b l IHl]; intros n; cbn [homogeneous]; [simpl; ring|].
      specialize (IHl (pred n)). simpl in IHl |- *. rewrite IHl, IH by (simpl in H; lia).
      autorewrite with q2r. ring.
Qed.

(** ** Sums of P (row u) *)

Fixpoint ridge (d : nat) (row : list Q) (p : upoly) (k : nat) : mpoly d :=
  match p with
  | [] => mzero d
  | c :: p =>
      let rest := ridge d row p (S k) in
      if zero c then rest else madd d (power d row k c) rest
  end.

Lemma ridge_ok d row p k x :
  length x = d -> meval d x (ridge d row p k) = linear row x ^ k * peval p (linear row x).
Proof.
  intros H. revert k; induction p as [|c p IH]; intros k; cbn [ridge peval].
  - rewrite meval_zero. ring.
  - cbv zeta. destruct (zero c) eqn:Z.
    + rewrite IH, (zero_ok _ Z). simpl. ring.
    + rewrite meval_add, power_ok, IH by trivial. simpl. ring.
Qed.

(** A factor f that makes row / f a row of integers, so that powers multiply out in integers. Nothing
    is proven of it but that it is not zero. *)
Definition content (row : list Q) : Q :=
  let den := fold_right (fun q d => Z.lcm (Zpos (Qden q)) d) 1%Z row in
  let num := fold_right (fun q d => Z.gcd (Qnum (qmul q (inject_Z den))) d) 0%Z row in
  match num, den with Zpos n, Zpos d => Qmake (Zpos n) d | _, _ => 1%Q end.

(** The coefficients of p (f t). *)
Fixpoint stretch (f power : Q) (p : upoly) : upoly :=
  match p with [] => [] | c :: p => qmul c power :: stretch f (qmul power f) p end.

Definition integral (e : list Q * upoly) : list Q * upoly :=
  let f := content (fst e) in
  if zero f then e else (map (qmul (Qinv f)) (fst e), stretch f 1 (snd e)).

(** A common denominator; any number other than zero would do. *)
Definition denominator (l : list (list Q * upoly)) : positive :=
  Z.to_pos (fold_right (fun e d => fold_right (fun q d => Z.lcm (Zpos (Qden q)) d) d (snd e)) 1%Z l).

Definition ridges (d : nat) (N : Q) (l : list (list Q * upoly)) : mpoly d :=
  fold_right (fun e s => madd d (ridge d (fst e) (pscale N (snd e)) 0) s) (mzero d) l.

Lemma stretch_ok f power p t : peval (stretch f power p) t = Q2R power * peval p (Q2R f * t).
Proof.
  revert power; induction p as [|c p IH]; intros power; cbn [stretch peval]; [ring|].
  rewrite IH. autorewrite with q2r. ring.
Qed.

Lemma linear_scale q row u : linear (map (qmul q) row) u = Q2R q * linear row u.
Proof.
  revert u; induction row as [|a row IH]; intros [|b u]; cbn [map linear]; try ring.
  rewrite IH. autorewrite with q2r. ring.
Qed.

Lemma integral_ok e u :
  peval (snd (integral e)) (linear (fst (integral e)) u) = peval (snd e) (linear (fst e) u).
Proof.
  unfold integral. destruct (zero (content (fst e))) eqn:Z; trivial. cbn [fst snd].
  assert (N : ~ content (fst e) == 0)
    by (intros C; unfold Qeq in C; simpl in C; rewrite Z.mul_1_r in C; unfold zero in Z;
        rewrite C in Z; discriminate).
  rewrite stretch_ok, linear_scale, (Q2R_inv _ N), Q2R_1, Rmult_1_l. f_equal. field.
  intros C. apply N, eqR_Qeq. now rewrite C, Q2R_0.
Qed.

(** The sum of P (row u). *)
Fixpoint ridge_sum (u : list R) (l : list (list Q * upoly)) : R :=
  match l with [] => 0 | e :: l => peval (snd e) (linear (fst e) u) + ridge_sum u l end.

Lemma ridges_ok d N l u : length u = d -> meval d u (ridges d N l) = Q2R N * ridge_sum u l.
Proof.
  intros H. unfold ridges. induction l as [|e l IH]; cbn [fold_right ridge_sum].
  - rewrite meval_zero. ring.
  - rewrite meval_add, IH, ridge_ok, peval_scale by trivial. simpl. ring.
Qed.

Lemma ridge_sum_integral u l : ridge_sum u (map integral l) = ridge_sum u l.
Proof.
  induction l as [|e l IH]; cbn [map ridge_sum]; trivial. now rewrite integral_ok, IH.
Qed.

(** ** Equality: [b] and the [ridges] add up to the target *)

Definition equals (c : list Q) (b : Q) (l : list (list Q * upoly)) (e : expr) : bool :=
  let d := length c in
  let l := map integral l in
  let N := Zpos (denominator l) # 1 in
  vanishes d (madd d (madd d (mconst d (qmul N b)) (ridges d N l)) (mscale d (Qopp N) (expand d c e))).

Lemma equals_ok c b l e x :
  length x = length c -> equals c b l e = true ->
  Q2R b + ridge_sum (minus x c) l = eval x e.
Proof.
  intros H E. unfold equals in E. cbv zeta in E. set (N := denominator _) in E.
  apply (vanishes_ok _ (minus x c)) in E.
  rewrite !meval_add, meval_const, meval_scale, ridges_ok, ridge_sum_integral in E
    by (now apply minus_length).
  rewrite <- expand_ok in E by trivial. rewrite Q2R_opp, Q2R_qmul, Q2R_integer in E.
  assert (P : IZR (Zpos N) <> 0) by (apply not_0_IZR; discriminate).
  apply Rmult_eq_reg_l with (IZR (Zpos N)); trivial. lra.
Qed.
