(** The computable checker of softmax attention.

    A token shares its attention between itself and one constant token, and receives tanh of half the
    difference of their scores, next to constants. Every tanh is replaced by its linear part: that
    keeps the entries of token i polynomials in t_i. All else is error, carried along for every entry:
    what tanh has beyond its linear part, and the attention that leaks to all other tokens.

    Consecutive heads with the same keys form a group: their scores differ by multiples of one number
    z, so that the errors of z are not counted once per head, and higher powers of z cancel. *)

From Coq Require Import QArith Qabs List.
From Exactformer Require Import Semantics Softmax Rationals OneVariable Tokens Domains Selection
  Identity Checker Logistic.
Import ListNotations.
Open Scope Q_scope.

Inductive soft_verdict :=
  | SoftProved
  | BadGuess                               (** the guess of tanh is not shown to be close to it *)
  | BadRow (token : nat)                   (** a row of F has not one entry per variable *)
  | Irregular (block head : nat)           (** the group of heads from here on has no common form *)
  | Unattended (block head token : nat)    (** whom a token attends to is not shown *)
  | Uncombined (block head : nat)          (** the errors of these heads together are not bounded *)
  | NotTarget (output : nat)               (** the linear parts do not give the polynomial *)
  | TooFar (output : nat)                  (** they do, but the error may exceed the stated one *)
  | BadCount.                              (** as many outputs as polynomials are needed *)

(** ** Numbers *)

(** Near q; nothing is proven of it. *)
Definition rounded (bits : Z) (q : Q) : Q :=
  Qred (Qmake ((2 * Qnum q * 2 ^ bits + Zpos (Qden q)) / (2 * Zpos (Qden q))) (Z.to_pos (2 ^ bits))).

Definition same_number (a b : Q) : bool := Z.eqb (Qnum a) (Qnum b) andalso Pos.eqb (Qden a) (Qden b).

Fixpoint same_list {X} (same : X -> X -> bool) (a b : list X) : bool :=
  match a, b with
  | [], [] => true
  | x :: a, y :: b => same x y andalso same_list same a b
  | _, _ => false
  end.

Definition same_entry (a b : nat * Q) : bool :=
  Nat.eqb (fst a) (fst b) andalso same_number (snd a) (snd b).
Definition same_matrix : matrix -> matrix -> bool := same_list (same_list same_entry).

Fixpoint traverse {X Y} (f : X -> option Y) (l : list X) : option (list Y) :=
  match l with
  | [] => Some []
  | x :: l =>
      match f x with
      | None => None
      | Some y => match traverse f l with None => None | Some r => Some (y :: r) end
      end
  end.

(** ** Tokens with errors *)

(** An entry is that of [core] up to what [slips] adds up to for its dimension. *)
Record shaken := Shaken { core : tracked; slips : list (positive * Q) }.
Definition still : shaken := Shaken nothing [].

Fixpoint slip_at (e : list (positive * Q)) (k : positive) : Q :=
  match e with [] => 0 | (j, s) :: e => if Pos.eqb j k then qadd s (slip_at e k) else slip_at e k end.

Fixpoint row_slip (row : sparse) (e : list (positive * Q)) : Q :=
  match row with
  | [] => 0
  | (j, q) :: row => qadd (qmul (Qabs q) (slip_at e (place j))) (row_slip row e)
  end.

Definition poly (row : sparse) (a : shaken) : upoly := row_of row (entries (core a)).
Definition slip (row : sparse) (a : shaken) : Q := row_slip row (slips a).

Definition fixed (p : upoly) : bool := forallb zero (tl p).

(** The value of a row that neither x nor an error changes. *)
Definition settled (row : sparse) (a : shaken) : option Q :=
  let p := poly row a in if fixed p andalso zero (slip row a) then Some (hd 0 p) else None.

Definition interval := (Q * Q)%type.

Definition range (a : shaken) (row : sparse) : interval :=
  let l := chebyshev (bound (core a)) (poly row a) in
  let e := qadd (absolute (tl l)) (slip row a) in
  (qsub (hd 0 l) e, qadd (hd 0 l) e).

(** ** Scores *)

(** The most that q (k - f) can be. *)
Definition top (q k f : interval) : Q :=
  if zero (fst q) andalso zero (snd q) then 0 else
  let l := qsub (fst k) (snd f) in
  let h := qsub (snd k) (fst f) in
  qmax (qmax (qmul (fst q) l) (qmul (fst q) h)) (qmax (qmul (snd q) l) (qmul (snd q) h)).

(** The most that a score can be above another. *)
Fixpoint ahead (qs ks fs : list interval) : Q :=
  match qs with
  | [] => 0
  | q :: qs => qadd (top q (hd (0, 0) ks) (hd (0, 0) fs)) (ahead qs (tl ks) (tl fs))
  end.

(** The most that the score of any token but f and p can be above that of f. *)
Fixpoint rivals (qs fs : list interval) (f p j : nat) (ks : list (list interval)) : Q :=
  match ks with
  | [] => -200
  | k :: ks =>
      let rest := rivals qs fs f p (S j) ks in
      if Nat.eqb j f orelse Nat.eqb j p then rest else qmax (ahead qs k fs) rest
  end.

(** How far the scores of the token a with itself and with p are apart: a polynomial, and its error. *)
Fixpoint gap (queries keys : matrix) (a p : shaken) : option (upoly * Q) :=
  match queries with
  | [] => Some ([], 0)
  | row :: queries =>
      match gap queries (tl keys) a p with
      | None => None
      | Some (g, e) =>
          let k := hd [] keys in
          let q := poly row a in
          if forallb zero q andalso zero (slip row a) then Some (g, e) else
          let other := poly k p in
          if fixed other then
            let w := padd (poly k a) [Qopp (hd 0 other)] in
            let dq := slip row a in
            let dk := qadd (slip k a) (slip k p) in
            let r := bound (core a) in
            let more :=
              if zero dq andalso zero dk then 0
              else up (qadd (qmul (size r q) dk) (qmul dq (qadd (size r w) dk))) in
            Some (padd (pmul q w) g, qadd more e)
          else None
      end
  end.

(** The row plus c times another. *)
Fixpoint insert (j : nat) (q : Q) (row : sparse) : sparse :=
  match row with
  | [] => [(j, q)]
  | (k, c) :: rest =>
      if Nat.eqb j k then let s := qadd c q in if zero s then rest else (k, s) :: rest
      else (k, c) :: insert j q rest
  end.

Definition combine (c : Q) (row other : sparse) : sparse :=
  fold_right (fun e => insert (fst e) (qmul c (snd e))) row other.

Fixpoint combined (c : Q) (M N : matrix) : matrix :=
  match M, N with row :: M, other :: N => combine c row other :: combined c M N | _, _ => [] end.

(** ** What the heads of a group give together: the sum of c_h tanh (e_h z / 2) *)

Definition pairs := list (Q * Q).

Definition same_pair (a b : Q * Q) : bool := same_number (fst a) (fst b) andalso same_number (snd a) (snd b).

(** The same in integers: C times the weights c_h, rounded; M times the e_h, for w = z / M; N times the
    guess, [whole]. *)
Definition shortened (C : positive) (l : pairs) : list (Q * Q * Q) :=
  map (fun b => (b, rounded 0 (qmul (Zpos C # 1) (snd b)))) l.

Definition weighed (M : positive) (whole : upoly) (short : list (Q * Q * Q)) : upoly :=
  fold_right (fun b s =>
    padd (pscale (snd b) (stretch (qmul (Zpos M # 1) (fst (fst b))) 1 whole)) s) [] short.

Definition linear_part (C : positive) (short : list (Q * Q * Q)) : Q :=
  fold_right (fun b s => qadd (qmul (1 # 2) (qmul (fst (fst b)) (qmul (1 # C) (snd b)))) s) 0 short.

(** What is lost by the rounding of weights, and by the guess. *)
Definition lost (C : positive) (near_tanh : Q) (short : list (Q * Q * Q)) : Q :=
  fold_right (fun b s =>
    let c := qmul (1 # C) (snd b) in
    qadd (up (qadd (Qabs (qsub (snd (fst b)) c)) (qmul (Qabs c) near_tanh))) s) 0 short.

(** The slope of the sum, and how far it is from the slope times z for |z| <= [z]. *)
Definition combination (g : guess) (near_tanh z : Q) (l : pairs) : option (Q * Q) :=
  if forallb (fun b => Qle_bool (qmul (Qabs (fst b)) z) (upto g)) l then
    let p := interleaved (odd g) in
    let N := common p in
    let M := common (map fst l) in
    let C := Z.to_pos (2 ^ 160) in
    let short := shortened C l in
    let slope := rounded 64 (linear_part C short) in
    let rest := padd (weighed M (pscale (Zpos N # 1) p) short)
      [0; Qopp (qmul slope (qmul (Zpos M # 1) (qmul (Zpos N # 1) (Zpos C # 1))))] in
    Some (slope, up (qadd (qmul (1 # N * C) (long_size (qmul z (1 # M)) rest)) (lost C near_tanh short)))
  else None.

(** Combinations that were met before. *)
Record known := Known { listed : pairs; within_z : Q; slope_of : Q; error_of : Q }.

Fixpoint recall (l : pairs) (z : Q) (memory : list known) : option (Q * Q) :=
  match memory with
  | [] => None
  | k :: memory =>
      if Qle_bool z (within_z k) andalso same_list same_pair l (listed k)
      then Some (slope_of k, error_of k) else recall l z memory
  end.

Definition combine_or_recall (g : guess) (near_tanh z : Q) (l : pairs) (memory : list known)
    : option (Q * Q * list known) :=
  match recall l z memory with
  | Some b => Some (b, memory)
  | None =>
      match combination g near_tanh z l with
      | None => None
      | Some (s, e) => Some ((s, e), Known l z s e :: memory)
      end
  end.

(** ** One group *)

Definition empty (row : sparse) : bool := match row with [] => true | _ => false end.

(** The one row of a value matrix that is not empty. *)
Fixpoint lone_row (M : matrix) : option nat :=
  match M with
  | [] => None
  | [] :: M => match lone_row M with None => None | Some d => Some (S d) end
  | _ :: M => if forallb empty M then Some O else None
  end.

(** What a head multiplies z with, if it is that of a group; nothing is proven of it. *)
Definition node (h : head) : Q := match query h with ((_, q) :: _) :: _ => q | _ => 0 end.

Definition regular (d : nat) (first h : head) : bool :=
  empty (bias h) andalso
  same_matrix (key h) (key first) andalso
  Nat.eqb (length (query h)) (length (query first)) andalso
  match lone_row (value h) with Some k => Nat.eqb k d | None => false end.

(** A head as it meets the tokens: their values and the largest of them, their queries; what its queries
    have beyond a multiple of those of the first head. *)
Record sight := Sight {
  seen_by : head; worth : list Q; greatest : Q; asking : list (list interval); beyond : matrix }.

Definition ranges (A : list shaken) (M : matrix) : list (list interval) :=
  map (fun a => map (range a) M) A.

Definition most (v : list Q) : Q := fold_right (fun q m => qmax (Qabs q) m) 0 v.

Definition sight_of (d : nat) (first : head) (A : list shaken) (h : head) : option sight :=
  match traverse (settled (nth d (value h) [])) A with
  | None => None
  | Some v =>
      Some (Sight h v (up (most v)) (ranges A (query h))
              (combined (Qopp (qmul (node h) (Qinv (node first)))) (query h) (query first)))
  end.

(** How much of its attention a token lets leak, in what it receives. *)
Definition leak (giving : list (list interval)) (n i f p : nat) (s : sight) : option Q :=
  let r := rivals (nth i (asking s) []) (nth f giving []) f p 0 giving in
  if Qle_bool r 0 then
    Some (up (qmul (qmul (Z.of_nat (n + n) # 1) (decay (Qopp r))) (greatest s)))
  else None.

(** What a token receives from a group: a constant up to the leakage, and where it shares its attention,
    a sum of tanh for a polynomial z with an error. *)
Record look := Look { leaking : Q; steady : Q; sharing : option (upoly * Q * pairs) }.

(** Half the sum and half the difference of two values; long opposite numbers cost nothing. *)
Definition half_sum (f p : nat) (s : sight) : Q :=
  let v := nth f (worth s) 0 in
  let w := nth p (worth s) 0 in
  if same_number v (Qopp w) then 0 else qmul (1 # 2) (qadd v w).
Definition half_difference (f p : nat) (s : sight) : Q :=
  let v := nth f (worth s) 0 in
  let w := nth p (worth s) 0 in
  if same_number v (Qopp w) then v else qmul (1 # 2) (qsub v w).

Definition vanishing (g : option (upoly * Q)) : bool :=
  match g with Some (p, e) => forallb zero p andalso zero e | None => false end.

Definition look_at (first : head) (giving : list (list interval)) (ss : list sight) (A : list shaken)
    (i f p : nat) : option look :=
  let n := length A in
  if Nat.ltb f n andalso Nat.ltb p n then
    match traverse (leak giving n i f p) ss with
    | None => None
    | Some leaks =>
        let leaked := fold_right qadd 0 leaks in
        let middle := fold_right (fun s e => qadd (half_sum f p s) e) 0 ss in
        if Nat.eqb f p then Some (Look leaked middle None)
        else if Nat.eqb f i then
          let a := nth i A still in
          let b := nth p A still in
          let e := node first in
          match gap (query first) (key first) a b with
          | None => None
          | Some (g, s) =>
              if forallb (fun s => vanishing (gap (beyond s) (key first) a b)) ss then
                Some (Look leaked middle (Some (pscale (Qinv e) g, qmul (Qabs (Qinv e)) s,
                  map (fun s => (node (seen_by s), half_difference f p s)) ss)))
              else None
          end
        else None
    end
  else None.

(** *** Whom a token attends to: guessed from the bounds of its scores *)

Definition product_range (q k : interval) : interval :=
  let a := qmul (fst q) (fst k) in let b := qmul (fst q) (snd k) in
  let c := qmul (snd q) (fst k) in let d := qmul (snd q) (snd k) in
  (qmin (qmin a b) (qmin c d), qmax (qmax a b) (qmax c d)).

Fixpoint score_range (qs ks : list interval) : interval :=
  match qs, ks with
  | q :: qs, k :: ks =>
      let r := score_range qs ks in
      let s := product_range q k in (qadd (fst s) (fst r), qadd (snd s) (snd r))
  | _, _ => (0, 0)
  end.

Definition attended (giving : list (list interval)) (s : sight) (i : nat) : option (nat * nat) :=
  let scores := map (score_range (nth i (asking s) [])) giving in
  let best := fold_right (fun r m => qmax (fst r) m) (fst (hd (0, 0) scores)) scores in
  let close := filter (fun b => qlt (qsub best 16) (snd (snd b))) (List.combine (seq 0 (length scores)) scores) in
  match map fst close with
  | [f] => Some (f, f)
  | [f; p] => if Nat.eqb f i then Some (f, p) else if Nat.eqb p i then Some (p, f) else None
  | _ => None
  end.

(** *** All tokens of a group *)

Fixpoint looks (first : head) (giving : list (list interval)) (ss : list sight) (A : list shaken)
    (i count : nat) : nat + list look :=
  match count with
  | O => inr []
  | S count =>
      let found :=
        match ss with
        | [] => None
        | s :: _ =>
            match attended giving s i with
            | None => None
            | Some (f, p) => look_at first giving ss A i f p
            end
        end in
      match found with
      | None => inl i
      | Some l =>
          match looks first giving ss A (S i) count with inl k => inl k | inr r => inr (l :: r) end
      end
  end.

Definition reach_of_look (a : shaken) (l : look) : Q :=
  match sharing l with None => 0 | Some (p, e, _) => qadd (size (bound (core a)) p) e end.

(** A short number above all z. *)
Definition largest (A : list shaken) (ls : list look) : Q :=
  let z := fold_right (fun b m => qmax (reach_of_look (fst b) (snd b)) m) 0 (List.combine A ls) in
  Qred (Qmake ((Qnum z * 1024) / Zpos (Qden z) + 1) 1024).

Definition first_pairs (ls : list look) : pairs :=
  fold_right (fun l r => match sharing l with None => r | Some (_, _, c) => c end) [] ls.

Definition affine (c slope : Q) (p : upoly) : upoly := padd [c] (pscale slope p).

(** The polynomial that a token receives, and its error. *)
Definition answer (z slope error : Q) (l : pairs) (a : shaken) (k : look) : option (upoly * Q) :=
  match sharing k with
  | None => Some ([steady k], leaking k)
  | Some (p, e, own) =>
      if same_list same_pair own l andalso Qle_bool (reach_of_look a k) z then
        Some (affine (steady k) slope p, up (qadd (qadd (leaking k) error) (qmul (Qabs slope) e)))
      else None
  end.

Fixpoint answers (z slope error : Q) (l : pairs) (A : list shaken) (ls : list look)
    : option (list (upoly * Q)) :=
  match A, ls with
  | [], [] => Some []
  | a :: A, k :: ls =>
      match answer z slope error l a k with
      | None => None
      | Some b => match answers z slope error l A ls with None => None | Some r => Some (b :: r) end
      end
  | _, _ => None
  end.

Inductive trouble := Shape | Token (i : nat) | Sum.

Definition group (g : guess) (near_tanh : Q) (A : list shaken) (memory : list known) (hs : list head)
    : trouble + (nat * list (upoly * Q) * list known) :=
  match hs with
  | [] => inl Shape
  | first :: _ =>
      match lone_row (value first) with
      | None => inl Shape
      | Some d =>
          if forallb (regular d first) hs andalso negb (zero (node first)) then
            match traverse (sight_of d first A) hs with
            | None => inl Shape
            | Some ss =>
                match looks first (ranges A (key first)) ss A 0 (length A) with
                | inl i => inl (Token i)
                | inr ls =>
                    let z := largest A ls in
                    let l := first_pairs ls in
                    match combine_or_recall g near_tanh z l memory with
                    | None => inl Sum
                    | Some (s, e, memory) =>
                        match answers z s e l A ls with
                        | None => inl Sum
                        | Some r => inr (d, r, memory)
                        end
                    end
                end
            end
          else inl Shape
      end
  end.

(** ** Blocks *)

Fixpoint grouped (hs : list head) : list (list head) :=
  match hs with
  | [] => []
  | h :: hs =>
      match grouped hs with
      | (h' :: g) :: gs =>
          if same_matrix (key h) (key h') then (h :: h' :: g) :: gs else [h] :: (h' :: g) :: gs
      | gs => [h] :: gs
      end
  end.

Definition absorb_one (d : nat) (a : shaken) (b : upoly * Q) : shaken :=
  Shaken (Tracked (direction (core a)) (bound (core a)) (tadd (place d) (fst b) (entries (core a))))
    ((place d, snd b) :: slips a).

Fixpoint absorb (d : nat) (A : list shaken) (r : list (upoly * Q)) : list shaken :=
  match A, r with a :: A, b :: r => absorb_one d a b :: absorb d A r | _, _ => [] end.

(** Every group sees the stream A before the block; B collects what they add. *)
Fixpoint groups (g : guess) (near_tanh : Q) (number h : nat) (A : list shaken) (gs : list (list head))
    (memory : list known) (B : list shaken) : soft_verdict + (list shaken * list known) :=
  match gs with
  | [] => inr (B, memory)
  | hs :: gs =>
      match group g near_tanh A memory hs with
      | inl Shape => inl (Irregular number h)
      | inl (Token i) => inl (Unattended number h (S i))
      | inl Sum => inl (Uncombined number h)
      | inr (d, r, memory) =>
          groups g near_tanh number (h + length hs) A gs memory (absorb d B r)
      end
  end.

Fixpoint follow_softly (g : guess) (near_tanh : Q) (number : nat) (bs : list (list head))
    (memory : list known) (A : list shaken) : soft_verdict + list shaken :=
  match bs with
  | [] => inr A
  | hs :: bs =>
      match groups g near_tanh number 1 A (grouped hs) memory A with
      | inl v => inl v
      | inr (A, memory) => follow_softly g near_tanh (S number) bs memory A
      end
  end.

(** ** Outputs *)

Fixpoint output_slip (beta : matrix) (A : list shaken) : Q :=
  match A with
  | [] => 0
  | a :: A => qadd (slip (hd [] beta) a) (output_slip (tl beta) A)
  end.

Fixpoint compare_softly (eps : Q) (c : list Q) (A : list shaken) (k : nat) (outputs : list (matrix * Q))
    (targets : list expr) : soft_verdict :=
  match outputs, targets with
  | [], [] => SoftProved
  | (beta, b) :: outputs, e :: targets =>
      if equals c b (contributions beta (map core A)) e then
        if Qle_bool (output_slip beta A) eps then compare_softly eps c A (S k) outputs targets
        else TooFar k
      else NotTarget k
  | _, _ => BadCount
  end.

(** A token whose t is zero is constant. *)
Definition calm (a : tracked) : tracked :=
  if zero (bound a) then
    Tracked (direction a) (bound a) (map (fun e => (fst e, firstn 1 (snd e))) (entries a))
  else a.

Definition soft_check (T : soft_transformer) (D : domain) (g : guess) (eps : Q) (targets : list expr)
    : soft_verdict :=
  match distance g with
  | None => BadGuess
  | Some near_tanh =>
      let A := start 16 D (soft_feature T) (soft_features T) (soft_constant T) in
      match first_failing (fun _ a => reach_ok D (direction a) (bound a)) 0 A with
      | Some i => BadRow (S i)
      | None =>
          match follow_softly g (up near_tanh) 1 (soft_blocks T) [] (map (fun a => Shaken (calm a) []) A) with
          | inl v => v
          | inr A => compare_softly eps (centre D) A 1 (soft_readouts T) targets
          end
      end
  end.
