(** The computable checker. It follows the transformer on polynomials in place of numbers: where every
    token selects itself, token i depends on x only through t_i = F_i (x - c). *)

From Coq Require Import QArith List.
From Exactformer Require Import Semantics Rationals OneVariable Tokens Domains Selection Identity.
Import ListNotations.
Open Scope Q_scope.

(** What the checker found. Blocks, heads, tokens, units and outputs are counted from 1. *)
Inductive verdict :=
  | Proved
  | WrongRow (token : nat)                   (** a row of F has not one entry per variable *)
  | NotSelected (block head token : nat)     (** a token is not shown to select itself *)
  | SignChanges (block token unit : nat)     (** what enters a ReLU is not shown to keep its sign *)
  | Differs (output : nat)                   (** an output is not the polynomial *)
  | WrongCount.                              (** as many outputs as polynomials are needed *)

(** ** Attention, where every token selects itself *)

Definition attend_token (how : rule) (h : prepared) (a : tracked) : token :=
  let v := view_of h a in
  let w := match how with OneHotMax => dot (below h) (asked v) (offered v) | HardMax => [1] end in
  map (fun e => (fst e, pmul w (snd e))) (apply_columns (values h) (entries a)).

Definition attention_token (how : rule) (hs : list prepared) (a : tracked) : tracked :=
  Tracked (direction a) (bound a)
    (fold_right (fun h z => tsum (attend_token how h a) z) (entries a) hs).

(** ** Feed-forward *)

Record prepared_feed := PreparedFeed {
  activation_of : activation;
  first : columns; first_bias : token; second : columns; second_bias : token }.

Definition prepare_feed (f : feed_forward) : prepared_feed :=
  PreparedFeed (activated_by f) (indexed (w1 f)) (constants (b1 f)) (indexed (w2 f)) (constants (b2 f)).

Definition units (f : prepared_feed) (a : tracked) : token :=
  tsum (first_bias f) (apply_columns (first f) (entries a)).

Fixpoint distinct (z : token) : bool :=
  match z with
  | [] => true
  | e :: z => forallb (fun e' => negb (Pos.eqb (fst e) (fst e'))) z andalso distinct z
  end.

Definition positive_on (r : Q) (p : upoly) : bool := Qle_bool 0 (low r p).
Definition keeps_sign (r : Q) (p : upoly) : bool :=
  positive_on r p orelse Qle_bool (high r p) 0.

(** The first unit whose sign is not known. *)
Definition unsettled (f : prepared_feed) (a : tracked) : option nat :=
  match activation_of f with
  | Identity => None
  | Relu =>
      let z := units f a in
      if distinct z then
        match find (fun e => negb (keeps_sign (bound a) (snd e))) z with
        | None => None
        | Some e => Some (Pos.to_nat (fst e))
        end
      else Some 0%nat
  end.

Definition activated (f : prepared_feed) (a : tracked) : token :=
  match activation_of f with
  | Identity => units f a
  | Relu =>
      map (fun e => (fst e, if positive_on (bound a) (snd e) then snd e else [])) (units f a)
  end.

Definition feed_token (f : prepared_feed) (a : tracked) : tracked :=
  Tracked (direction a) (bound a)
    (tsum (tsum (second_bias f) (apply_columns (second f) (activated f a))) (entries a)).

(** ** Blocks *)

Fixpoint heads_problem (D : domain) (k : nat) (hs : list prepared) (A : state) : option (nat * nat) :=
  match hs with
  | [] => None
  | h :: hs =>
      match unselected D h A with
      | Some i => Some (k, S i)
      | None => heads_problem D (S k) hs A
      end
  end.

Fixpoint feed_problem (f : prepared_feed) (i : nat) (A : state) : option (nat * nat) :=
  match A with
  | [] => None
  | a :: A =>
      match unsettled f a with Some u => Some (i, u) | None => feed_problem f (S i) A end
  end.

Fixpoint follow (D : domain) (number : nat) (bs : list block) (A : state) : verdict + state :=
  match bs with
  | [] => inr A
  | b :: bs =>
      let hs := map prepare (heads b) in
      match heads_problem D 1 hs A with
      | Some (h, i) => inl (NotSelected number h i)
      | None =>
          let f := prepare_feed (feeding b) in
          let A := map (attention_token (selects_by b) hs) A in
          match feed_problem f 1 A with
          | Some (i, u) => inl (SignChanges number i u)
          | None => follow D (S number) bs (map (feed_token f) A)
          end
      end
  end.

(** ** From the embedding to the outputs *)

Fixpoint start (bits : Z) (D : domain) (feature : nat) (rows : list (list Q)) (marks : matrix)
    : state :=
  match rows with
  | [] => []
  | row :: rows =>
      Tracked row (reach bits D row)
        (tadd (place feature) [qlinear row (centre D); 1] (constants (hd [] marks)))
      :: start bits D feature rows (tl marks)
  end.

Fixpoint contributions (beta : matrix) (A : state) : list (list Q * upoly) :=
  match A with
  | [] => []
  | a :: A => (direction a, row_of (hd [] beta) (entries a)) :: contributions (tl beta) A
  end.

Fixpoint compare (c : list Q) (A : state) (k : nat) (outputs : list (matrix * Q))
    (targets : list expr) : verdict :=
  match outputs, targets with
  | [], [] => Proved
  | (beta, b) :: outputs, e :: targets =>
      if equals c b (contributions beta A) e then compare c A (S k) outputs targets else Differs k
  | _, _ => WrongCount
  end.

Definition check_with (bits : Z) (T : transformer) (D : domain) (targets : list expr) : verdict :=
  let A := start bits D (feature T) (features T) (constant T) in
  match first_failing (fun _ a => reach_ok D (direction a) (bound a)) 0 A with
  | Some i => WrongRow (S i)
  | None =>
      match follow D 1 (blocks T) A with
      | inl v => v
      | inr A => compare (centre D) A 1 (readouts T) targets
      end
  end.

(** Short numbers first; longer ones where a margin is too small for them. *)
Definition check (T : transformer) (D : domain) (targets : list expr) : verdict :=
  match check_with 8 T D targets with
  | NotSelected _ _ _ | SignChanges _ _ _ => check_with 40 T D targets
  | v => v
  end.
