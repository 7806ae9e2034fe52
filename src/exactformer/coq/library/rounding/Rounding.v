(** The error of a fused form in floating-point arithmetic, over a whole domain. *)

From Coq Require Import Reals QArith Qreals Qabs List Permutation Bool Lra Lia.
From Flocq Require Import Core Relative.
From Exactformer Require Import Semantics Rationals OneVariable Tokens Domains Identity Logistic.
From Exactformer.rounding Require Import Floats Summation Clenshaw.
Import ListNotations.
Open Scope Q_scope.

(** ** The checker *)

(** Size, error and the largest number on the way: of p t + c from those of p. *)
Definition step_bound (f : format) (low : Z) (T E c : Q) (before : Q * Q * Q) : Q * Q * Q :=
  let '(s, e, m) := before in
  let u := unit_of f low in
  let sT := up (qmul s T) in
  let e2 := after u sT (up (times_error s e T E)) in
  let size := up (qadd (Qabs c) sT) in
  let e3 := after u size (qadd e2 (weight_error f low c)) in
  (size, e3, qmax (qmax m (qadd sT e2)) (qadd size e3)).

Fixpoint horner_bound (f : format) (low : Z) (T E : Q) (l : list Q) : Q * Q * Q :=
  match l with
  | [] => (0, 0, 0)
  | [c] => (Qabs c, weight_error f low c, qadd (Qabs c) (weight_error f low c))
  | c :: l => step_bound f low T E c (horner_bound f low T E l)
  end.

(** A coordinate may be off by share |x_j - c_j| + more. *)
Record offness := Offness { share : Q; more : Q }.

Definition coordinate_error (f : format) (low : Z) (c : list Q) : offness :=
  if forallb zero c then Offness 0 0
  else
    let u := unit_of f low in
    let d := fold_right (fun q m => qmax (weight_error f low q) m) 0 c in
    Offness (relative u) (qadd d (qadd (qmul (relative u) d) (absolute_ u))).

Definition widest (D : domain) : Q :=
  match D with Ball _ R => Qabs R | Box _ h => fold_right (fun q m => qmax (Qabs q) m) 0 h end.

Fixpoint extra (h a X : Q) (o : offness) (row : list Q) : Q :=
  match row with
  | [] => 0
  | q :: row =>
      qadd (qadd (qmul h (qadd (qmul (qadd 1 (share o)) X) (more o)))
             (qmul (qmul (Qabs q) (more o)) (qadd 1 a)))
        (extra h a X o row)
  end.

Definition entries_of (row : list Q) : nat := length (filter (fun q => negb (zero q)) row).

(** The error of t_i; r bounds the sum of |F_ij| |x_j - c_j|. *)
Definition feature_error (f : format) (low : Z) (X : Q) (o : offness) (row : list Q) (r : Q) : Q * Q :=
  let u := unit_of f low in
  let exact := forallb (is_dyadic f) row in
  let a := if exact then 0 else relative u in
  let h := if exact then 0 else absolute_ u in
  let rho := qadd (qmul a (qadd 1 (share o))) (share o) in
  let moved := up (qadd (qmul rho r) (extra h a X o row)) in
  let n := entries_of row in
  let e := up (qadd moved (sum_error u n n (qadd r moved))) in
  (e, qadd r e).

(** The value of a token before its last rounding: its size, its error, the largest number on the way. *)
Definition value_bound (f : format) (low : Z) (B : basis) (r E : Q) (c : list Q) : Q * Q * Q :=
  match B with
  | Powers =>
      let '(s, e, m) := horner_bound f low r E c in (up (qmul s r), up (times_error s e r E), m)
  | Chebyshev => clenshaw_bound f low r E c
  end.

(** Chebyshev polynomials grow quickly beyond 1, so there r must not be much larger than need be. *)
Definition bits_of_reach (B : basis) : Z := match B with Powers => 16 | Chebyshev => 40 end.

(** The same of all values together. *)
Fixpoint values_bound (f : format) (low : Z) (B : basis) (D : domain) (o : offness)
    (l : list (list Q * list Q)) : option (Q * Q * Q) :=
  match l with
  | [] => Some (0, 0, 0)
  | (row, c) :: l =>
      let r := reach (bits_of_reach B) D (map Qabs row) in
      if reach_ok D (map Qabs row) r then
        match values_bound f low B D o l with
        | None => None
        | Some (Z, W, M) =>
            let '(E, m) := feature_error f low (widest D) o row r in
            let '(s, e, m') := value_bound f low B r E c in
            Some (qadd s Z, qadd e W, qmax (qmax m m') M)
        end
      else None
  end.

Definition as_powers (B : basis) (c : list Q) : upoly :=
  match B with Powers => 0 :: c | Chebyshev => in_powers c end.

Definition as_ridges (B : basis) (l : list (list Q * list Q)) : list (list Q * upoly) :=
  map (fun r => (fst r, as_powers B (snd r))) l.

Fixpoint same_centre (a b : list Q) : bool :=
  match a, b with
  | [], [] => true
  | p :: a, q :: b => (Z.eqb (Qnum p) (Qnum q) andalso Pos.eqb (Qden p) (Qden q)) andalso same_centre a b
  | _, _ => false
  end.

Definition rounding_check_with (low : Z) (f : format) (F : form) (D : domain) (eps : Q) (e : expr) : bool :=
  match values_bound f low (in_basis F) D (coordinate_error f low (about F)) (ridges_of F) with
  | None => false
  | Some (Z, W, M) =>
      let b := offset F in
      let carried := up (qadd (weight_error f low b) W) in
      let whole := up (qadd (Qabs b) (qadd Z carried)) in
      let error := qadd carried (sum_error (unit_of f low) (S (length (ridges_of F))) (S (length (ridges_of F))) whole) in
      Z.ltb 0 (digits f) andalso Z.leb (lowest f - 1) low andalso
      same_centre (about F) (centre D) andalso
      Qle_bool error eps andalso
      Qle_bool (qmax M (qadd whole error)) (power2 (highest f - 1)) andalso
      equals (centre D) b (as_ridges (in_basis F) (ridges_of F)) e
  end.

(** Short numbers first. *)
Definition rounding_check (f : format) (F : form) (D : domain) (eps : Q) (e : expr) : bool :=
  rounding_check_with (Z.max (-160) (lowest f - 1)) f F D eps e orelse
  rounding_check_with (lowest f - 1) f F D eps e.

Open Scope R_scope.

Section Format.
  Variable f : format.
  Variable low : Z.
  Hypothesis Hf : (0 < digits f)%Z.
  Hypothesis Hlow : (lowest f - 1 <= low)%Z.
  Let u : R := Q2R (relative (unit_of f low)).
  Let eta : R := Q2R (absolute_ (unit_of f low)).
  Let u_pos : 0 <= u := Summation.u_pos f low.
  Let eta_pos : 0 <= eta := Summation.eta_pos f low.
  Let rnd_ok a : Rabs (rnd f a - a) <= u * Rabs a + eta := Summation.rnd_ok f low Hf Hlow a.

  (** ** Coordinates *)

  Definition off (o : offness) (y u : list R) : Prop :=
    Forall2 (fun a b => Rabs (a - b) <= Q2R (share o) * Rabs b + Q2R (more o)) y u.

  Definition sized (X : Q) (u : list R) : Prop := Forall (fun b => Rabs b <= Q2R X) u.

  Lemma maximum_ok (g : Q -> Q) l q :
    In q l -> Q2R (g q) <= Q2R (fold_right (fun q m => qmax (g q) m) 0%Q l).
  Proof.
    assert (L : forall a b, Q2R a <= Q2R (qmax a b)).
    { intros a b. unfold qmax. destruct (Qle_bool a b) eqn:E; [now apply qle_ok|lra]. }
    assert (R : forall a b, Q2R b <= Q2R (qmax a b)).
    { intros a b. unfold qmax. destruct (Qle_bool a b) eqn:E; [lra|].
      assert (K : qlt b a = true) by (unfold qlt; now rewrite E). apply qlt_iff in K. lra. }
    induction l as [|c l IH]; intros I; [now elim I|]. cbn [fold_right]. destruct I as [->|I].
    - apply L.
    - eapply Rle_trans; [now apply IH|apply R].
  Qed.

  Lemma coordinates_ok x c :
    length x = length c -> off (coordinate_error f low c) (shifted f x c) (minus x c).
  Proof.
    intros H. unfold coordinate_error. destruct (forallb zero c) eqn:Z.
    - revert x H Z; induction c as [|q c IH]; intros [|a x] H Z; cbn [length] in H; try discriminate;
        cbn [shifted minus]; constructor.
      + cbn [forallb] in Z. destruct (zero q) eqn:E; [|discriminate].
        change (Z.eqb (Qnum q) 0) with (zero q). rewrite E, (zero_ok _ E). cbn [share more].
        replace (a - (a - 0)) with 0 by ring. rewrite Rabs_R0, Q2R_0. lra.
      + apply IH; [lia|]. cbn [forallb] in Z. now destruct (zero q).
    - clear Z. cbv zeta. set (d := fold_right _ 0%Q c).
      assert (Hd : forall q, In q c -> Rabs (rnd f (Q2R q) - Q2R q) <= Q2R d).
      { intros q I. eapply Rle_trans; [apply (weight_error_ok f low Hf Hlow)|].
        now apply (maximum_ok (weight_error f low)). }
      clearbody d. revert x H; induction c as [|q c IH]; intros [|a x] H; cbn [length] in H;
        try discriminate; cbn [shifted minus]; constructor.
      + specialize (Hd q (or_introl eq_refl)). cbn [share more]. autorewrite with q2r. fold u eta.
        pose proof u_pos as U. pose proof eta_pos as N.
        assert (D0 : 0 <= Q2R d) by (eapply Rle_trans; [apply Rabs_pos|exact Hd]).
        assert (P : 0 <= u * Rabs (a - Q2R q)) by (apply Rmult_le_pos; [exact U|apply Rabs_pos]).
        assert (P' : 0 <= u * Q2R d) by (apply Rmult_le_pos; trivial).
        destruct (Z.eqb_spec (Qnum q) 0) as [E|E].
        * assert (Q0 : Q2R q = 0) by (apply zero_ok; unfold zero; now apply Z.eqb_eq).
          rewrite Q0 in *. replace (a - (a - 0)) with 0 by ring. rewrite Rabs_R0. lra.
        * set (c' := rnd f (Q2R q)) in *. set (w := a - Q2R q) in *.
          assert (V : Rabs (a - c' - w) <= Q2R d).
          { unfold w. replace (a - c' - (a - Q2R q)) with (- (c' - Q2R q)) by ring. now rewrite Rabs_Ropp. }
          replace (rnd f (a - c') - w) with ((a - c' - w) + (rnd f (a - c') - (a - c'))) by ring.
          eapply Rle_trans; [apply Rabs_triang|]. pose proof (rnd_ok (a - c')) as R.
          assert (B : Rabs (a - c') <= Rabs w + Q2R d).
          { replace (a - c') with (w + (a - c' - w)) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra. }
          assert (M : u * Rabs (a - c') <= u * (Rabs w + Q2R d)) by (apply Rmult_le_compat_l; trivial).
          lra.
      + apply IH; [|lia]. intros q' I. apply Hd. now right.
  Qed.

  (** ** Features *)

  Fixpoint absolute_linear (row : list Q) (u : list R) : R :=
    match row, u with q :: row, b :: u => Rabs (Q2R q) * Rabs b + absolute_linear row u | _, _ => 0 end.

  Lemma leaves_ok a h X o row y v :
    0 <= Q2R a -> 0 <= Q2R h -> 0 <= Q2R (share o) -> 0 <= Q2R (more o) -> 0 <= Q2R X ->
    (forall q, In q row -> Rabs (rnd f (Q2R q) - Q2R q) <= Q2R a * Rabs (Q2R q) + Q2R h) ->
    off o y v -> sized X v ->
    Rabs (total (leaves f row y) - linear row v)
      <= (Q2R a * (1 + Q2R (share o)) + Q2R (share o)) * absolute_linear row v + Q2R (extra h a X o row) /\
    magnitude (leaves f row y)
      <= absolute_linear row v
         + ((Q2R a * (1 + Q2R (share o)) + Q2R (share o)) * absolute_linear row v + Q2R (extra h a X o row)).
  Proof.
    intros A0 H0 S0 M0 X0 Hw Ho Hs. revert y v Ho Hs; induction row as [|q row IH]; intros y v Ho Hs.
    - cbn [leaves extra absolute_linear linear total magnitude fold_right].
      unfold total, magnitude. cbn [fold_right].
      rewrite Rminus_0_r, Rabs_R0, Q2R_0. split; lra.
    - assert (E0 : 0 <= Q2R (extra h a X o row)).
      { clear -A0 H0 S0 M0 X0. induction row as [|c row IH]; cbn [extra]; [rewrite Q2R_0; lra|].
        autorewrite with q2r. pose proof (Rabs_pos (Q2R c)).
        not_negative. }
      destruct Ho as [|ya va y v O Ho].
      + cbn [leaves extra absolute_linear linear]. unfold total, magnitude. cbn [fold_right].
        rewrite Rminus_0_r, Rabs_R0. autorewrite with q2r. pose proof (Rabs_pos (Q2R q)).
        assert (0 <= Q2R h * ((1 + Q2R (share o)) * Q2R X + Q2R (more o))
                  + Rabs (Q2R q) * Q2R (more o) * (1 + Q2R a))
          by (not_negative).
        split; lra.
      + inversion Hs as [|? ? Sv Hs']; subst.
        destruct (IH (fun c I => Hw c (or_intror I)) y v Ho Hs') as [T M]. clear IH.
        cbn [leaves extra absolute_linear linear]. autorewrite with q2r.
        set (rho := Q2R a * (1 + Q2R (share o)) + Q2R (share o)) in *.
        set (rest := absolute_linear row v) in *. set (more_rest := Q2R (extra h a X o row)) in *.
        set (own := Q2R h * ((1 + Q2R (share o)) * Q2R X + Q2R (more o))
                    + Rabs (Q2R q) * Q2R (more o) * (1 + Q2R a)).
        pose proof (Rabs_pos (Q2R q)) as Pq. pose proof (Rabs_pos va) as Pv.
        assert (R0 : 0 <= rho) by (unfold rho; apply Rplus_le_le_0_compat; trivial; apply Rmult_le_pos; lra).
        assert (O0 : 0 <= own)
          by (unfold own; not_negative).
        assert (QV : 0 <= Rabs (Q2R q) * Rabs va) by (now apply Rmult_le_pos).
        assert (RQV : 0 <= rho * (Rabs (Q2R q) * Rabs va)) by (now apply Rmult_le_pos).
        destruct (Z.eqb_spec (Qnum q) 0) as [E|E].
        * assert (Q0 : Q2R q = 0) by (apply zero_ok; unfold zero; now apply Z.eqb_eq).
          rewrite Q0, Rabs_R0, !Rmult_0_l, !Rplus_0_l. split; lra.
        * specialize (Hw q (or_introl eq_refl)). set (q' := rnd f (Q2R q)) in *.
          assert (B : Rabs (q' * ya - Q2R q * va) <= rho * (Rabs (Q2R q) * Rabs va) + own).
          { assert (Y : Rabs ya <= (1 + Q2R (share o)) * Rabs va + Q2R (more o)).
            { replace ya with (va + (ya - va)) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra. }
            replace (q' * ya - Q2R q * va) with ((q' - Q2R q) * ya + Q2R q * (ya - va)) by ring.
            eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_mult.
            apply Rle_trans with ((Q2R a * Rabs (Q2R q) + Q2R h) * ((1 + Q2R (share o)) * Rabs va + Q2R (more o))
              + Rabs (Q2R q) * (Q2R (share o) * Rabs va + Q2R (more o))).
            - apply Rplus_le_compat; apply Rmult_le_compat; trivial using Rabs_pos; lra.
            - assert (V : Q2R h * ((1 + Q2R (share o)) * Rabs va) <= Q2R h * ((1 + Q2R (share o)) * Q2R X))
                by (apply Rmult_le_compat_l; trivial; apply Rmult_le_compat_l; lra).
              unfold rho, own. lra. }
          unfold total, magnitude. cbn [fold_right worth].
          fold (total (leaves f row y)) (magnitude (leaves f row y)). split.
          -- replace (q' * ya + total (leaves f row y) - (Q2R q * va + linear row v))
               with ((q' * ya - Q2R q * va) + (total (leaves f row y) - linear row v)) by ring.
             eapply Rle_trans; [apply Rabs_triang|]. lra.
          -- assert (K : Rabs (q' * ya) <= Rabs (Q2R q) * Rabs va + (rho * (Rabs (Q2R q) * Rabs va) + own)).
             { replace (q' * ya) with (Q2R q * va + (q' * ya - Q2R q * va)) by ring.
               eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult. lra. }
             lra.
  Qed.

  Lemma leaves_length row y : (length (leaves f row y) <= entries_of row)%nat.
  Proof.
    unfold entries_of. revert y; induction row as [|q row IH]; intros y; cbn [leaves filter]; [simpl; lia|].
    destruct y as [|a y]; [simpl; lia|]. specialize (IH y). change (Z.eqb (Qnum q) 0) with (zero q).
    destruct (zero q); cbn [negb length]; lia.
  Qed.

  Lemma feature_ok X o row y v r t m E M :
    0 <= Q2R (share o) -> 0 <= Q2R (more o) -> 0 <= Q2R X -> off o y v -> sized X v ->
    absolute_linear row v <= Q2R r -> feature_is f row y t m -> feature_error f low X o row r = (E, M) ->
    Rabs (t - linear row v) <= Q2R E /\ m <= Q2R M.
  Proof.
    intros S0 M0 X0 Ho Hs Hr Ht H. unfold feature_error in H. cbv zeta in H.
    set (exact := forallb (is_dyadic f) row) in H.
    set (a := if exact then 0%Q else relative (unit_of f low)) in H.
    set (h := if exact then 0%Q else absolute_ (unit_of f low)) in H.
    pose proof u_pos as U. pose proof eta_pos as N.
    assert (A0 : 0 <= Q2R a) by (unfold a; destruct exact; [rewrite Q2R_0; lra|exact U]).
    assert (H0 : 0 <= Q2R h) by (unfold h; destruct exact; [rewrite Q2R_0; lra|exact N]).
    assert (Hw : forall q, In q row -> Rabs (rnd f (Q2R q) - Q2R q) <= Q2R a * Rabs (Q2R q) + Q2R h).
    { intros q I. unfold a, h. destruct exact eqn:Ex; [|apply rnd_ok].
      unfold exact in Ex. rewrite forallb_forall in Ex. rewrite (is_dyadic_ok f q (Ex q I)).
      rewrite Rminus_diag_eq, Rabs_R0, Q2R_0 by trivial. lra. }
    destruct (leaves_ok a h X o row y v A0 H0 S0 M0 X0 Hw Ho Hs) as [T G].
    assert (P : 0 <= absolute_linear row v).
    { clear. revert v; induction row as [|q row IH]; intros [|b v]; cbn [absolute_linear]; try lra.
      specialize (IH v). pose proof (Rmult_le_pos _ _ (Rabs_pos (Q2R q)) (Rabs_pos b)). lra. }
    set (rho := Q2R a * (1 + Q2R (share o)) + Q2R (share o)) in *.
    assert (R0 : 0 <= rho) by (unfold rho; apply Rplus_le_le_0_compat; trivial; apply Rmult_le_pos; lra).
    set (moved := up (qadd (qmul _ r) _)) in H.
    assert (B : rho * absolute_linear row v + Q2R (extra h a X o row) <= Q2R moved).
    { unfold moved. eapply Rle_trans; [|apply up_ok]. autorewrite with q2r. fold rho.
      apply Rplus_le_compat_r, Rmult_le_compat_l; trivial. }
    set (n := entries_of row) in H. set (s := sum_error _ n n _) in H.
    assert (V0 : 0 <= Q2R moved) by (eapply Rle_trans; [apply Rabs_pos|]; eapply Rle_trans; [exact T|exact B]).
    assert (S : Rabs (t - total (leaves f row y)) <= Q2R s /\ m <= magnitude (leaves f row y) + Q2R s).
    { assert (S1 : 0 <= Q2R s) by (apply sum_error_pos; autorewrite with q2r; lra).
      unfold feature_is in Ht. pose proof (leaves_length row y) as L.
      destruct (leaves f row y) as [|b l] eqn:El.
      - destruct Ht as [-> ->]. unfold total, magnitude. cbn [fold_right]. rewrite Rminus_0_r, Rabs_R0. lra.
      - destruct (summed_ok f low Hf Hlow _ _ _ _ Ht) as [_ [Es Ms]].
        assert (K : bound_of f low (length (b :: l)) (b :: l) <= Q2R s).
        { eapply Rle_trans; [apply (bound_of_more f low _ n); [exact L|simpl; lia]|].
          apply sum_error_ok; [autorewrite with q2r; lra|exact L|simpl; lia]. }
        split; lra. }
    destruct S as [S1 S2]. injection H as <- <-.
    set (e := up (qadd moved s)).
    assert (K : Q2R moved + Q2R s <= Q2R e).
    { unfold e. eapply Rle_trans; [|apply up_ok]. rewrite Q2R_qadd. lra. }
    split.
    - replace (t - linear row v) with ((t - total (leaves f row y)) + (total (leaves f row y) - linear row v))
        by ring.
      eapply Rle_trans; [apply Rabs_triang|]. lra.
    - rewrite Q2R_qadd. lra.
  Qed.

  (** ** Horner's rule *)

  (** z is p t', rounded or not. *)
  Lemma step_bound_ok T E t t' c p w z m before :
    Rabs t <= Q2R T -> Rabs (t' - t) <= Q2R E -> z = p * t' \/ z = rnd f (p * t') ->
    (let '(s, e, M) := before in Rabs w <= Q2R s /\ Rabs (p - w) <= Q2R e /\ m <= Q2R M) ->
    let v := rnd f (z + rnd f (Q2R c)) in
    let '(s, e, M) := step_bound f low T E c before in
    Rabs (Q2R c + t * w) <= Q2R s /\ Rabs (v - (Q2R c + t * w)) <= Q2R e /\
    Rmax (Rmax m (Rabs z)) (Rabs v) <= Q2R M.
  Proof.
    intros HT HE Hz. destruct before as [[s e] M]. intros [S [D L]]. cbn [step_bound]. cbv zeta.
    set (sT := up (qmul s T)). set (e1 := up (times_error s e T E)).
    set (e2 := after (unit_of f low) sT e1). set (size := up (qadd (Qabs c) sT)).
    assert (W1 : Rabs (w * t) <= Q2R sT).
    { unfold sT. eapply Rle_trans; [|apply up_ok]. rewrite Rabs_mult, Q2R_qmul.
      apply Rmult_le_compat; trivial using Rabs_pos. }
    assert (D1 : Rabs (p * t' - w * t) <= Q2R e1).
    { unfold e1. eapply Rle_trans; [|apply up_ok]. now apply times_error_ok. }
    assert (D2 : Rabs (z - w * t) <= Q2R e2).
    { destruct Hz as [-> | ->]; [|now apply (after_ok f low Hf Hlow)].
      unfold e2, after. eapply Rle_trans; [|apply up_ok]. autorewrite with q2r. fold u eta.
      pose proof u_pos. pose proof eta_pos. pose proof (Rabs_pos (w * t)). pose proof (Rabs_pos (p * t' - w * t)).
      assert (0 <= u * (Q2R sT + Q2R e1)) by (apply Rmult_le_pos; lra). lra. }
    assert (W2 : Rabs (Q2R c + t * w) <= Q2R size).
    { unfold size. eapply Rle_trans; [|apply up_ok]. rewrite Q2R_qadd, Q2R_abs.
      eapply Rle_trans; [apply Rabs_triang|]. rewrite (Rmult_comm t). lra. }
    assert (D3 : Rabs (z + rnd f (Q2R c) - (Q2R c + t * w)) <= Q2R (qadd e2 (weight_error f low c))).
    { rewrite Q2R_qadd. replace (z + rnd f (Q2R c) - (Q2R c + t * w))
        with ((z - w * t) + (rnd f (Q2R c) - Q2R c)) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. pose proof (weight_error_ok f low Hf Hlow c). lra. }
    pose proof (after_ok f low Hf Hlow _ _ _ _ W2 D3) as D4. split; [exact W2|]. split; [exact D4|].
    apply Rmax_lub; [apply Rmax_lub|]; apply qmax_ok.
    - left. apply qmax_ok. now left.
    - left. apply qmax_ok. right. exact (around _ _ _ _ W1 D2).
    - right. exact (around _ _ _ _ W2 D4).
  Qed.

  Lemma horner_ok T E t t' l p m :
    Rabs t <= Q2R T -> Rabs (t' - t) <= Q2R E -> horner f t' l p m ->
    let '(s, e, M) := horner_bound f low T E l in
    Rabs (peval l t) <= Q2R s /\ Rabs (p - peval l t) <= Q2R e /\ m <= Q2R M.
  Proof.
    intros HT HE H. induction H as [|c|c c' l p m H IH|c c' l p m H IH].
    - cbn [horner_bound peval]. rewrite Rminus_0_r, Rabs_R0, Q2R_0. lra.
    - cbn [horner_bound peval]. rewrite Rmult_0_r, Rplus_0_r.
      pose proof (weight_error_ok f low Hf Hlow c) as W. split; [rewrite Q2R_abs; lra|]. split; [exact W|].
      apply (around _ (Q2R c)); [rewrite Q2R_abs; lra|exact W].
    - exact (step_bound_ok T E t t' c p _ _ m _ HT HE (or_intror eq_refl) IH).
    - pose proof (step_bound_ok T E t t' c p _ _ m _ HT HE (or_introl eq_refl) IH) as K.
      change (horner_bound f low T E (c :: c' :: l)) with (step_bound f low T E c (horner_bound f low T E (c' :: l))).
      destruct (step_bound f low T E c _) as [[s e] M]. destruct K as [W [D L]].
      split; [exact W|]. split; [exact D|]. eapply Rle_trans; [|exact L].
      apply Rle_max_compat_r, Rmax_l.
  Qed.

  (** ** All tokens *)

  Lemma value_ok B r E t t' c a m :
    Rabs t <= Q2R r -> Rabs (t' - t) <= Q2R E -> value_is f t' B c a m ->
    let '(s, e, M) := value_bound f low B r E c in
    Rabs (peval (as_powers B c) t) <= Q2R s /\ Rabs (worth a - peval (as_powers B c) t) <= Q2R e /\
    m <= Q2R M.
  Proof.
    intros Ht HE [c' p m' H|c' b b' m' v s H S];
      [|exact (clenshaw_ok f low Hf Hlow r E t t' Ht HE c' b b' m' v s H S)].
    pose proof (horner_ok _ _ _ _ _ _ _ Ht HE H) as K. cbn [value_bound as_powers peval worth].
    destruct (horner_bound f low r E c') as [[s e] M]. destruct K as [W [D L]].
    rewrite Q2R_0, Rplus_0_l, (Rmult_comm t). split; [|split; trivial]; (eapply Rle_trans; [|apply up_ok]).
    - rewrite Rabs_mult, Q2R_qmul. apply Rmult_le_compat; trivial using Rabs_pos.
    - now apply times_error_ok.
  Qed.

  Lemma values_ok B D o y v l ls M S W L :
    0 <= Q2R (share o) -> 0 <= Q2R (more o) -> 0 <= Q2R (widest D) ->
    off o y v -> sized (widest D) v ->
    (forall row r, reach_ok D (map Qabs row) r = true -> absolute_linear row v <= Q2R r) ->
    values f B y l ls M -> values_bound f low B D o l = Some (S, W, L) ->
    length ls = length l /\
    Rabs (total ls - ridge_sum v (as_ridges B l)) <= Q2R W /\
    magnitude ls <= Q2R S + Q2R W /\ M <= Q2R L.
  Proof.
    intros S0 M0 X0 Ho Hs Hr H. revert S W L.
    induction H as [|row c t m a m' rest ls M Ht Ha H IH]; intros S W L V.
    - injection V as <- <- <-. unfold total, magnitude. cbn [fold_right ridge_sum as_ridges map length].
      rewrite Rminus_0_r, Rabs_R0, Q2R_0. repeat split; lra.
    - cbn [values_bound] in V. cbv zeta in V. set (r := reach _ D (map Qabs row)) in *.
      destruct (reach_ok D (map Qabs row) r) eqn:R; [|discriminate]. specialize (Hr row r R).
      destruct (values_bound f low B D o rest) as [[[S1 W1] L1]|]; [|discriminate].
      destruct (feature_error f low (widest D) o row r) as [E m1] eqn:Fe.
      destruct (value_bound f low B r E c) as [[s e] m2] eqn:Vb.
      destruct (feature_ok _ o row y v r t m E m1 S0 M0 X0 Ho Hs Hr Ht Fe) as [Et Mt].
      assert (T : Rabs (linear row v) <= Q2R r).
      { eapply Rle_trans; [|exact Hr]. clear. revert v; induction row as [|q row IH]; intros [|b v];
          cbn [linear absolute_linear]; try (rewrite Rabs_R0; lra).
        eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult. specialize (IH v). lra. }
      pose proof (value_ok B _ _ _ _ _ _ _ T Et Ha) as K. rewrite Vb in K. destruct K as [Sp [Ep Mp]].
      destruct (IH _ _ _ eq_refl) as [Le [Tr [Mg Mx]]]. injection V as <- <- <-.
      pose proof (around _ _ _ _ Sp Ep) as Ar. rewrite Q2R_qadd in Ar.
      split; [cbn [length]; now rewrite Le|].
      unfold total, magnitude. cbn [fold_right]. fold (total ls) (magnitude ls).
      cbn [as_ridges map ridge_sum fst snd]. fold (as_ridges B rest). rewrite !Q2R_qadd.
      split; [|split].
      + replace (worth a + total ls - (peval (as_powers B c) (linear row v) + ridge_sum v (as_ridges B rest)))
          with ((worth a - peval (as_powers B c) (linear row v))
                + (total ls - ridge_sum v (as_ridges B rest))) by ring.
        eapply Rle_trans; [apply Rabs_triang|]. lra.
      + lra.
      + apply Rmax_lub; [apply Rmax_lub|]; apply qmax_ok; [left..|now right]; apply qmax_ok; auto.
  Qed.
End Format.

(** ** Domains *)

Fixpoint mirrored (x : list R) (c : list Q) : list R :=
  match x, c with a :: x, q :: c => (Rabs (a - Q2R q) + Q2R q) :: mirrored x c | _, _ => [] end.

Lemma minus_mirrored x c : minus (mirrored x c) c = map Rabs (minus x c).
Proof.
  revert c; induction x as [|a x IH]; intros [|q c]; cbn [mirrored minus map]; trivial.
  rewrite IH. f_equal. ring.
Qed.

Lemma mirrored_inside D x : inside D x -> inside D (mirrored x (centre D)).
Proof.
  assert (L : forall x c, length x = length c -> length (mirrored x c) = length c).
  { intros y c; revert y; induction c as [|q c IH]; intros [|a y] H; simpl in *; try discriminate; auto. }
  destruct D as [c r|c h]; intros [H K]; cbn [centre]; split; auto; rewrite minus_mirrored.
  - replace (squares (map Rabs (minus x c))) with (squares (minus x c)); trivial.
    clear. induction (minus x c) as [|a u IH]; cbn [map squares]; trivial. now rewrite IH, pow2_abs.
  - revert K. clear. revert h; induction (minus x c) as [|a u IH]; intros [|q h] K; cbn [map within] in *;
      trivial. destruct K as [K K']. rewrite Rabs_Rabsolu. auto.
Qed.

Lemma absolute_reach D x row r :
  inside D x -> reach_ok D (map Qabs row) r = true ->
  absolute_linear row (minus x (centre D)) <= Q2R r.
Proof.
  intros Hx H. pose proof (reach_sound D _ r _ (mirrored_inside D x Hx) H) as B.
  rewrite minus_mirrored in B. eapply Rle_trans; [|exact B]. eapply Rle_trans; [|apply Rle_abs].
  right. clear. revert row; induction (minus x (centre D)) as [|a u IH]; intros [|q row];
    cbn [absolute_linear linear map]; trivial. now rewrite IH, Q2R_abs.
Qed.

Lemma widest_ok D x : inside D x -> sized (widest D) (minus x (centre D)) /\ 0 <= Q2R (widest D).
Proof.
  destruct D as [c r|c h]; intros [L K]; cbn [centre widest].
  - split; [|rewrite Q2R_abs; apply Rabs_pos]. unfold sized. revert K. clear.
    induction (minus x c) as [|a u IH]; intros K; constructor; cbn [squares] in K.
    + pose proof (squares_pos u). rewrite Q2R_abs. apply Rsqr_le_abs_0. unfold Rsqr. simpl in K. lra.
    + apply IH. pose proof (pow2_ge_0 a). lra.
  - split.
    + unfold sized. revert K. clear. revert h; induction (minus x c) as [|a u IH]; intros [|q h] K;
        cbn [within] in K; try contradiction; constructor.
      * destruct K as [K _]. cbn [fold_right]. apply qmax_ok. left. rewrite Q2R_abs.
        eapply Rle_trans; [exact K|apply Rle_abs].
      * destruct K as [_ K]. specialize (IH h K). eapply Forall_impl; [|exact IH]. intros b Hb.
        cbn [fold_right]. apply qmax_ok. now right.
    + clear. induction h as [|q h IH]; cbn [fold_right]; [rewrite Q2R_0; lra|]. apply qmax_ok. now right.
Qed.

(** ** The theorem *)

Lemma same_centre_ok a b : same_centre a b = true -> a = b.
Proof.
  revert b; induction a as [|[n d] a IH]; intros [|[m e] b] H; cbn [same_centre Qnum Qden] in H;
    try discriminate; trivial.
  destruct (Z.eqb_spec n m) as [->|]; [|discriminate].
  destruct (Pos.eqb_spec d e) as [->|]; [|discriminate]. now rewrite (IH _ H).
Qed.

Lemma rounding_check_ok low (f : format) (F : form) (D : domain) (eps : Q) (e : expr) :
  rounding_check_with low f F D eps e = true ->
  forall x : list R, inside D x -> forall v m, computes f F x v m ->
  m < too_large f /\ Rabs (v - eval x e) <= real eps.
Proof.
  unfold rounding_check_with. destruct (values_bound _ _ _ _ _) as [[[S W] B]|] eqn:V; [|discriminate].
  cbv zeta. set (carried := up _). set (whole := up _). set (s := sum_error _ _ _ _).
  destruct (Z.ltb_spec 0 (digits f)) as [Hf|]; [|discriminate].
  destruct (Z.leb_spec (lowest f - 1) low) as [Hl|]; [|discriminate].
  destruct (same_centre _ _) eqn:Ce; [|discriminate]. apply same_centre_ok in Ce.
  destruct (Qle_bool _ eps) eqn:Ee; [|discriminate].
  destruct (Qle_bool _ (power2 _)) eqn:Eh; [|discriminate].
  intros Eq x Hx v m (ls & M & t & Hv & Ht & ->). rewrite real_ok. rewrite Ce in *.
  apply qle_ok in Ee. apply qle_ok in Eh. rewrite power2_ok in Eh.
  pose proof (inside_length D x Hx) as L.
  apply (equals_ok _ _ _ _ x L) in Eq. 
  destruct (widest_ok D x Hx) as [Sz X0].
  assert (O0 : 0 <= Q2R (share (coordinate_error f low (centre D))) /\ 0 <= Q2R (more (coordinate_error f low (centre D)))).
  { unfold coordinate_error. destruct (forallb zero (centre D)); cbn [share more]; [rewrite Q2R_0; lra|].
    cbv zeta. autorewrite with q2r. pose proof (u_pos f low). pose proof (eta_pos f low).
    assert (P : 0 <= Q2R (fold_right (fun q m => qmax (weight_error f low q) m) 0%Q (centre D))).
    { clear. induction (centre D) as [|q c IH]; cbn [fold_right]; [rewrite Q2R_0; lra|].
      apply qmax_ok. now right. }
    split; trivial. not_negative. }
  destruct O0 as [S0 M0].
  destruct (values_ok f low Hf Hl _ D _ _ _ _ _ _ _ _ _ S0 M0 X0 (coordinates_ok f low Hf Hl x (centre D) L) Sz
    (fun row r => absolute_reach D x row r Hx) Hv V) as [Le [Tr [Mg Mx]]].
  set (b := offset F) in *. pose proof (weight_error_ok f low Hf Hl b) as Eb. set (b' := rnd f (Q2R b)) in *.
  assert (C : Q2R (weight_error f low b) + Q2R W <= Q2R carried).
  { unfold carried. eapply Rle_trans; [|apply up_ok]. rewrite Q2R_qadd. lra. }
  assert (A : magnitude (Term b' :: ls) <= Q2R whole).
  { unfold whole. eapply Rle_trans; [|apply up_ok]. autorewrite with q2r.
    unfold magnitude. cbn [fold_right worth]. fold (magnitude ls).
    assert (Rabs b' <= Rabs (Q2R b) + Q2R (weight_error f low b)).
    { replace b' with (Q2R b + (b' - Q2R b)) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra. }
    lra. }
  destruct (summed_ok f low Hf Hl _ _ _ _ Ht) as [_ [Es Ms]].
  assert (K : bound_of f low (Datatypes.S (length (ridges_of F))) (Term b' :: ls) <= Q2R s).
  { unfold s. apply sum_error_ok; trivial; cbn [length]; lia. }
  rewrite Q2R_qadd in Ee.
  assert (Err : Rabs (v - eval x e) <= Q2R carried + Q2R s).
  { rewrite <- Eq. unfold total in Es. cbn [fold_right worth] in Es. fold (total ls) in Es.
    replace (v - (Q2R b + ridge_sum (minus x (centre D)) (as_ridges (in_basis F) (ridges_of F))))
      with ((v - (b' + total ls)) + ((b' - Q2R b)
            + (total ls - ridge_sum (minus x (centre D)) (as_ridges (in_basis F) (ridges_of F))))) by ring.
    eapply Rle_trans; [apply Rabs_triang|].
    assert (T : Rabs ((b' - Q2R b) + (total ls
       - ridge_sum (minus x (centre D)) (as_ridges (in_basis F) (ridges_of F)))) <= Q2R carried)
      by (eapply Rle_trans; [apply Rabs_triang|]; lra).
    lra. }
  split; [|lra].
  unfold too_large. apply Rle_lt_trans with (bpow radix2 (highest f - 1)); [|apply bpow_lt; lia].
  assert (C0 : 0 <= Q2R carried).
  { pose proof (Rabs_pos (b' - Q2R b)). pose proof (Rabs_pos (total ls
      - ridge_sum (minus x (centre D)) (as_ridges (in_basis F) (ridges_of F)))). lra. }
  eapply Rle_trans; [|exact Eh]. apply Rmax_lub; apply qmax_ok; [now left|right].
  rewrite !Q2R_qadd. lra.
Qed.

Theorem rounding_sound (f : format) (F : form) (D : domain) (eps : Q) (e : expr) :
  rounding_check f F D eps e = true ->
  forall x : list R, inside D x -> forall v m, computes f F x v m ->
  m < too_large f /\ Rabs (v - eval x e) <= real eps.
Proof.
  unfold rounding_check. set (short := rounding_check_with (Z.max _ _) f F D eps e).
  set (whole := rounding_check_with _ f F D eps e).
  assert (A : short = true -> forall x, inside D x -> forall v m, computes f F x v m ->
    m < too_large f /\ Rabs (v - eval x e) <= real eps) by apply rounding_check_ok.
  assert (B : whole = true -> forall x, inside D x -> forall v m, computes f F x v m ->
    m < too_large f /\ Rabs (v - eval x e) <= real eps) by apply rounding_check_ok.
  clearbody short whole. destruct short; auto.
Qed.

(** ** There is such a computation: the theorem is not about nothing *)

Lemma summed_exists f l : l <> [] -> exists v m, summed f (length l) l v m.
Proof.
  assert (One : forall a, exists v m, summed f 1 [a] v m).
  { intros [a|a b]; [exists a, (Rabs a); apply sum_less, sum_term|].
    exists (rnd f (a * b)), (Rabs (rnd f (a * b))). apply sum_product. }
  induction l as [|a l IH]; intros N; [now elim N|]. destruct (One a) as (v & m & H).
  destruct l as [|b l]; [now exists v, m|].
  destruct IH as (w & m' & H'); [discriminate|].
  exists (rnd f (v + w)), (Rmax (Rmax m m') (Rabs (rnd f (v + w)))).
  apply (sum_add f (length (b :: l)) [a] (b :: l)); trivial.
  clear -H. cbn [length]. induction (length l) as [|k IH]; trivial. now apply sum_less.
Qed.

Lemma value_exists f t B c : exists a m, value_is f t B c a m.
Proof.
  destruct B.
  - assert (P : exists p m, horner f t c p m).
    { induction c as [|q c (p & m & IH)]; [exists 0, 0; constructor|].
      destruct c as [|q' c]; [eexists; eexists; apply horner_last|].
      eexists; eexists; apply horner_step, IH. }
    destruct P as (p & m & P). exists (Product p t), m. now constructor.
  - assert (P : exists b b' m, clenshaw f t c b b' m).
    { induction c as [|q c (b & b' & m & IH)]; [exists 0, 0, 0; constructor|].
      eexists; exists b; eexists. eapply clenshaw_step; [exact IH|].
      apply (sum_add f 1 [_; _] [_]); [apply (sum_add f 0 [_] [_]); apply sum_term|apply sum_product]. }
    destruct P as (b & b' & m & P). eexists; eexists. eapply value_clenshaw; [exact P|].
    apply (sum_add f 1 [_] [_]); [apply sum_product|apply sum_less, sum_term].
Qed.

Theorem computes_exists f F x : exists v m, computes f F x v m.
Proof.
  set (y := shifted f x (about F)).
  assert (V : forall l, exists ls M, values f (in_basis F) y l ls M /\ length ls = length l).
  { induction l as [|[row c] l (ls & M & IH & L)]; [exists [], 0; split; [constructor|trivial]|].
    assert (T : exists t m, feature_is f row y t m).
    { unfold feature_is. destruct (leaves f row y) as [|b r] eqn:E; [now exists 0, 0|].
      apply summed_exists. discriminate. }
    destruct T as (t & m & T). destruct (value_exists f t (in_basis F) c) as (a & m' & P).
    exists (a :: ls), (Rmax (Rmax m m') M).
    split; [now apply (one_value _ _ _ _ _ t)|cbn [length]; now rewrite L]. }
  destruct (V (ridges_of F)) as (ls & M & H & L).
  destruct (summed_exists f (Term (rnd f (Q2R (offset F))) :: ls)) as (v & s & S); [discriminate|].
  exists v, (Rmax M s), ls, M, s. repeat split; trivial. cbn [length] in S. now rewrite L in S.
Qed.
