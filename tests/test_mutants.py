"""A one-symbol slip in `transalg.formal` or the engine does not survive: every mutant below makes its named test fail."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.mutation import ROOT, Mutant, part_of

pytestmark = pytest.mark.slow

FIGURES = "evaluation/test_classes.py::"
VALUES, LADDER, LAWS, ERRATA = (
    "formal/test_values.py::",
    "formal/test_ladder.py::",
    "formal/test_laws.py::",
    "formal/test_errata.py::",
)
TRAINING, INFERENCE, SPECIAL = "formal/test_training.py::", "formal/test_inference.py::", "formal/test_special.py::"
NORM, PERCEPTRON, POSITIONS, MASK, POOLING = (f"formal/test_{unit}.py::" for unit in ("norm", "mlp", "positions", "mask", "pooling"))
CLASSIFICATION, SYSTEMS, EMBEDDING, SHARING, ADVERSARIAL = (
    f"formal/test_{file}.py::" for file in ("classification", "systems", "embedding", "sharing", "adversarial")
)
THETA, DOMAINS, MAP = "formal/test_theta.py::", "formal/test_domains.py::", "test_paper_map.py::"
GPT2, BERT, TORCH = "parity/test_gpt2.py::", "parity/test_bert.py::", "parity/test_torch_transformer.py::"
ED, E, D = TORCH + "test_probabilities[5-3]", BERT + "test_probabilities[7]", GPT2 + "test_probabilities[7]"
DUPLICATES, CLEANING = "data/test_duplicates.py::", "data/test_cleaning.py::"

FORMAL = [
    # Bugs found in public implementations of this paper
    Mutant("Attention", "V @ softmax(S / sqrt(W_qkv.d_attn))", 'torch.einsum("dz,tx->dx", V, softmax(S / sqrt(W_qkv.d_attn)))', VALUES + "test_attention_masks_by_key_and_query"),
    Mutant("EDTransformer", "layer.W_ed", "layer.W_dec", ED),
    Mutant("DTransformer", "X_tilde = columns(", "X = X_tilde = columns(", D),
    Mutant("DTransformer", "MHAttention(X_tilde, X_tilde, ", "MHAttention(X, X, ", D),
    Mutant("layer_norm", "((e - m) ** 2).sum() / len(e)", "((e - m) ** 2).sum() / (len(e) - 1)", VALUES + "test_layer_norm"),
    Mutant("DTransformer", "columns(layer_norm(X[:, t], layer.gamma1, layer.beta1, eps) for t in range(ell))", "(X - X.mean()) / (X.var(unbiased=False) + eps).sqrt() * layer.gamma1[:, None] + layer.beta1[:, None]", D),
    Mutant("Attention", "softmax(S / sqrt(W_qkv.d_attn))", "softmax((S / sqrt(W_qkv.d_attn)).T).T", VALUES + "test_attention_masks_by_key_and_query"),
    Mutant("softmax", "E.sum(dim=0, keepdim=True)", "E.sum(dim=-1, keepdim=True)", VALUES + "test_softmax_is_over_rows"),
    Mutant("Attention", "V @ softmax(S / sqrt(W_qkv.d_attn))", "softmax(V @ (S / sqrt(W_qkv.d_attn)).nan_to_num())", VALUES + "test_attention_masks_by_key_and_query"),
    Mutant("unidirectional", ".triu()", ".tril()", LADDER + "test_unidirectional_has_a_row_for_every_key"),
    Mutant("Attention", "torch.where(Mask, S", "torch.where(Mask.T, S", VALUES + "test_attention_masks_by_key_and_query"),
    Mutant("Attention", "torch.where(Mask, S", "torch.where(~Mask, S", VALUES + "test_attention_masks_by_key_and_query"),
    Mutant("EDTransformer", "enumerate(theta.dec)", "enumerate(theta.dec[: len(theta.enc)])", ED),
    Mutant("tempered", "softmax((log_p - log_p.max()) / tau)", "softmax(p / tau)", VALUES + "test_temperature"),
    Mutant("DTransformer", "X = X + layer.W_mlp2", "X = X + X + layer.W_mlp2", D),
    Mutant("EDTransformer", "X = X + MHAttention(X, Z", "X = X + X + MHAttention(X, Z", ED),
    Mutant("DTransformer", "layer.gamma1, layer.beta1", "layer.gamma1[t].expand(len(X)), layer.beta1[t].expand(len(X))", D),
    # Algorithms 1–3
    Mutant("token_embedding", "W_e[:, v]", "W_e[:, v - 1]", VALUES + "test_embeddings_are_columns"),
    Mutant("positional_embedding", "W_p[:, ell]", "W_p[:, ell - 1]", VALUES + "test_embeddings_are_columns"),
    Mutant("single_query_attention", "W_qkv.W_q @ e + W_qkv.b_q", "W_qkv.W_q @ e", VALUES + "test_single_query_attention"),
    Mutant("single_query_attention", "/ sqrt(W_qkv.d_attn)", "/ W_qkv.d_attn", VALUES + "test_single_query_attention"),
    Mutant("single_query_attention", "W_qkv.W_v @ e_t + W_qkv.b_v", "W_qkv.W_v @ e_t", VALUES + "test_single_query_attention"),
    # Algorithm 4
    Mutant("Attention", "W_qkv.W_q @ X + W_qkv.b_q[:, None]", "W_qkv.W_q @ X", LADDER + "test_attention_of_one_query_is_algorithm_3"),
    Mutant("Attention", "W_qkv.W_v @ Z + W_qkv.b_v[:, None]", "W_qkv.W_v @ Z", VALUES + "test_attention_masks_by_key_and_query"),
    Mutant("Attention", "K.T @ Q", "Q.T @ K", LADDER + "test_attention_of_one_query_is_algorithm_3"),
    Mutant("Attention", "S, -inf)", "S, 0.0)", VALUES + "test_attention_masks_by_key_and_query"),
    Mutant("Attention", "S / sqrt(W_qkv.d_attn)", "S", VALUES + "test_attention_masks_by_key_and_query"),
    Mutant("Attention", "S / sqrt(W_qkv.d_attn)", "S / sqrt(len(V))", VALUES + "test_attention_masks_by_key_and_query"),
    # Algorithm 5
    Mutant("MHAttention", "for W_qkv in W.W_qkv]", "for W_qkv in [W.W_qkv[0]] * len(W.W_qkv)]", VALUES + "test_multi_head_attention_stacks_heads_in_order"),
    Mutant("MHAttention", "torch.cat(Y_h)", "torch.cat(Y_h[::-1])", VALUES + "test_multi_head_attention_stacks_heads_in_order"),
    Mutant("MHAttention", " + W.b_o[:, None]", "", VALUES + "test_multi_head_attention_stacks_heads_in_order"),
    Mutant("MHAttention", "Attention(X, Z, W_qkv", "Attention(X, X, W_qkv", LADDER + "test_heads_add_up"),
    Mutant("MHAttentionTheta", "getattr(self, name) for name in names", "getattr(self, name) for name in names[2:4] + names[:2] + names[4:]", D),
    # Algorithms 6 and 7
    Mutant("layer_norm", "torch.sqrt(v + eps)", "(torch.sqrt(v) + eps)", VALUES + "test_layer_norm"),
    Mutant("layer_norm", "(e - m) ** 2", "e**2", VALUES + "test_layer_norm"),
    Mutant("layer_norm", "* gamma + beta", "* (gamma + beta)", VALUES + "test_layer_norm"),
    Mutant("layer_norm", "* gamma + beta", "* gamma", VALUES + "test_layer_norm"),
    Mutant("unembedding", "softmax(W_u @ e)", "torch.sigmoid(W_u @ e)", VALUES + "test_unembedding"),
    # Notation
    Mutant("GELU", "A * Phi", 'torch.nn.functional.gelu(A, approximate="tanh")', VALUES + "test_activations"),
    Mutant("ReLU", "torch.relu(A)", "torch.nn.functional.leaky_relu(A)", VALUES + "test_activations"),
    Mutant("unidirectional", ".triu()", ".triu(1)", LADDER + "test_unidirectional_has_a_row_for_every_key"),
    Mutant("bidirectional", "torch.bool)", "torch.bool).triu()", LAWS + "test_causality_by_gradient"),
    Mutant("softmax", "torch.exp(A - torch.where(top == -math.inf, 0, top))", "torch.exp(A)", VALUES + "test_softmax_does_not_overflow"),
    Mutant("softmax", "torch.where(total == 0, 1, total)", "total", ERRATA + "test_07_fully_masked_column"),
    Mutant("tempered", "/ tau)", "* tau)", VALUES + "test_temperature"),
    Mutant("tempered", "p.double().log()", "p.log()", LAWS + "test_the_lowest_temperature_is_one_token_in_every_dtype"),
    Mutant("tempered", "p.argmax()", "p.argmin()", VALUES + "test_temperature"),
    Mutant("tempered", " - log_p.max()", "", LAWS + "test_low_temperature_tends_to_the_most_likely_token"),
    Mutant("sample", "torch.multinomial(q if generator is None else q.to(generator.device), 1, generator=generator)", "q.argmax()", LAWS + "test_sampling_frequencies_match_q"),
    Mutant("sample", "generator=generator", "generator=None", INFERENCE + "test_sampling_uses_the_generator_and_nothing_else"),
    Mutant("choose", "< p else b", ">= p else b", TRAINING + "test_masking_frequency_is_p_mask_and_redrawn_every_epoch"),
    Mutant("append", "[x, x.new_tensor([y])]", "[x.new_tensor([y]), x]", INFERENCE + "test_greedy_continuation_is_the_argmax_of_the_last_column"),
    # Algorithm 8
    Mutant("EDTransformer", "Z = Z + MHAttention(", "Z = MHAttention(", ED),
    Mutant("EDTransformer", "layer.gamma1, layer.beta1", "layer.gamma2, layer.beta2", ED),
    Mutant("EDTransformer", "ReLU(layer.W_mlp1", "GELU(layer.W_mlp1", ED),
    Mutant("EDTransformer", "ReLU(layer.W_mlp3", "GELU(layer.W_mlp3", ED),
    Mutant("EDTransformer", "theta.W_e[:, z[t]]", "theta.W_e[:, z[0]]", ED),
    Mutant("EDTransformer", "theta.W_e[:, x[t]] + theta.W_p[:, t]", "theta.W_e[:, x[t]]", ED),
    Mutant("EDTransformer", "MHAttention(X, Z, layer.W_ed, bidirectional(ell_z, ell_x))", "MHAttention(X, X, layer.W_ed, bidirectional(ell_x, ell_x))", ED),
    Mutant("EDTransformer", "unidirectional(ell_x)", "bidirectional(ell_x, ell_x)", LAWS + "test_the_decoder_is_causal_in_x_and_sees_all_of_z"),
    Mutant("EDTransformer", "layer.gamma4, layer.beta4", "layer.gamma3, layer.beta3", ED),
    Mutant("EDTransformer", " + layer.b_mlp4[:, None]", "", ED),
    # Algorithm 9
    Mutant("ETransformer", "GELU(theta.W_f @ X + theta.b_f[:, None])", "theta.W_f @ X + theta.b_f[:, None]", E),
    Mutant("ETransformer", "bidirectional(ell, ell)", "bidirectional(ell, ell).triu()", E),
    Mutant("ETransformer", " + layer.b_mlp1[:, None]", "", E),
    Mutant("ETransformer", "theta.gamma, theta.beta, eps", "theta.gamma, theta.beta", E),
    Mutant("ETransformer", "X = X + layer.W_mlp2", "X = layer.W_mlp2", E),
    # Algorithm 10
    Mutant("DTransformer", "X = X + MHAttention", "X = X_tilde + MHAttention", D),
    Mutant("DTransformer", "layer.gamma2, layer.beta2", "layer.gamma1, layer.beta1", D),
    Mutant("DTransformer", "layer.W_mlp1 @ X_tilde", "layer.W_mlp1 @ X", D),
    Mutant("DTransformer", "columns(layer_norm(X[:, t], theta.gamma, theta.beta, eps) for t in range(ell))", "X", D),
    Mutant("DTransformer", "theta.W_p[:, t]", "theta.W_p[:, t - 1]", D),
    Mutant("DTransformer", "Mask(ell, l)", "Mask(ell, 0)", MASK + "test_sparse_layers_alternate_with_dense_ones"),
    Mutant("DTransformer", "  # 9: end", "", MAP + "test_each_numbered_line_is_one_statement_in_order[DTransformer]"),
    Mutant("DTransformer", "# 6: X ←", "# 6: X̃ ←", MAP + "test_each_numbered_line_is_one_statement_in_order[DTransformer]"),
    Mutant("DTransformer", "layer.gamma1, layer.beta1, eps", "layer.gamma1, layer.beta1, 1e-5", GPT2 + "test_epsilon_reaches_every_norm"),
    Mutant("DTransformer", "layer.gamma2, layer.beta2, eps", "layer.gamma2, layer.beta2, 1e-5", GPT2 + "test_epsilon_reaches_every_norm"),
    Mutant("EDTransformer", "layer.gamma1, layer.beta1, eps", "layer.gamma1, layer.beta1, 1e-5", TORCH + "test_epsilon_reaches_every_norm"),
    Mutant("EDTransformer", "layer.gamma5, layer.beta5, eps", "layer.gamma5, layer.beta5, 1e-5", TORCH + "test_epsilon_reaches_every_norm"),
    # Algorithms 11–13
    Mutant("EDTraining", "theta - eta", "theta + eta", TORCH + "test_training"),
    Mutant("EDTraining", "partial(EDTransformer, z_n, x_n)", "partial(EDTransformer, x_n, x_n)", TORCH + "test_training"),
    Mutant("EDTraining", ".log().sum()", ".log().mean()", TORCH + "test_training"),
    Mutant("ETraining", "[x_n[T_tilde], T_tilde]", "[x_n, torch.arange(ell)]", BERT + "test_training"),
    Mutant("ETraining", "partial(ETransformer, x_tilde)", "partial(ETransformer, x_n)", BERT + "test_training"),
    Mutant("ETraining", "0.0 if int(x_n[t]) in theta.special_tokens.values() else p_mask", "p_mask", ERRATA + "test_12_masking"),
    Mutant("ETraining", "int(x_n[t]) in theta.special_tokens.values()", "int(x_n[t]) >= theta.mask_token", SPECIAL + "test_masking_leaves_exactly_the_special_ones"),
    Mutant("ETraining", "x_n.clone()", "x_n", TRAINING + "test_training_is_repeatable_and_leaves_its_input_alone"),
    Mutant("DTraining", "x_n[1:]", "x_n[:-1]", GPT2 + "test_training"),
    Mutant("DTraining", "-P(theta)[x_n[1:], torch.arange(ell - 1)].log().sum()", "-P(theta)[x_n[1:], torch.arange(ell - 1)].sum()", GPT2 + "test_training"),
    Mutant("DTraining", "range(N_epochs)", "range(N_epochs - 1)", GPT2 + "test_training"),
    # Algorithms 14 and 15
    Mutant("DInference", "P[:, -1]", "P[:, 0]", INFERENCE + "test_greedy_continuation_is_the_argmax_of_the_last_column"),
    Mutant("DInference", "x[-theta_hat.ell_max :]", "x[: theta_hat.ell_max]", INFERENCE + "test_beyond_ell_max_the_last_ell_max_tokens_count"),
    Mutant("DInference", "return x[ell:]", "return x", INFERENCE + "test_beyond_ell_max_the_last_ell_max_tokens_count"),
    Mutant("DInference", "y == stop", "y == 0", INFERENCE + "test_it_may_stop_after_a_token"),
    Mutant("EDInference", "[theta_hat.bos_token]", "[theta_hat.eos_token]", INFERENCE + "test_seq2seq_prediction_goes_from_bos_to_eos"),
    Mutant("EDInference", "y = -1", "y = theta_hat.eos_token", INFERENCE + "test_the_cap_holds_where_eos_never_comes"),
    Mutant("EDInference", "<= ell_gen", "< ell_gen", INFERENCE + "test_the_cap_holds_where_eos_never_comes"),
    Mutant("EDInference", "y != theta_hat.eos_token", "y != theta_hat.bos_token", INFERENCE + "test_seq2seq_prediction_goes_from_bos_to_eos"),
    # θ
    Mutant("Theta", "torch.sub", "torch.add", THETA + "test_arithmetic_is_part_by_part"),
    Mutant("Theta", "size != expected", "size > 10 * expected", THETA + "test_any_wrong_size_is_found_and_named"),
    Mutant("TransformerTheta", "self.N_V - 2", "self.N_V - 1", INFERENCE + "test_seq2seq_prediction_goes_from_bos_to_eos"),
    Mutant("TransformerTheta", "self.N_V - 3", "self.N_V - 4", TRAINING + "test_only_the_masked_tokens_are_trained_and_the_special_ones_never"),
    Mutant("TransformerTheta", "if v is not None}", "}", SPECIAL + "test_a_missing_one_is_said_where_it_is_needed"),
    Mutant("TransformerTheta", "replace(theta, special=special)", "theta", SPECIAL + "test_they_go_where_theta_goes"),
    Mutant("_flatten", "getattr(theta, field.name) for field in _context(theta)", "None for field in _context(theta)", SPECIAL + "test_they_go_where_theta_goes"),
    Mutant("TransformerTheta", "d_e % H", "H % d_e == -1", THETA + "test_d_attn_and_d_mid_are_d_e_over_H_unless_given"),
    Mutant("DecoderLayer", "MLPTheta(self.W_mlp3, self.b_mlp3", "MLPTheta(self.W_mlp3, 0 * self.b_mlp3", THETA + "test_a_layer_gives_its_mlp"),
    # Variants
    Mutant("MLP", "W.W_mlp2 @ A + W.b_mlp2[:, None]", "W.W_mlp2 @ A", PERCEPTRON + "test_it_is_torchs", "formal/mlp.py"),
    Mutant("ReLU_MLP", "GELU=ReLU", "GELU=GELU", PERCEPTRON + "test_it_is_torchs", "formal/mlp.py"),
    Mutant("Gopher", "partial(MHAttention, Attention=RelativeAttention)", "MHAttention", POSITIONS + "test_gopher_trains_by_algorithm_13"),
    Mutant("RelativeMHAttentionTheta", "= RelativeAttentionTheta", "= AttentionTheta", POSITIONS + "test_gopher_trains_by_algorithm_13", "formal/positions.py"),
    Mutant("pre_norm", "MLP(X_tilde, theta_l.mlp)", "MLP(X, theta_l.mlp)", SYSTEMS + "test_gpt_is_algorithm_10", "formal/systems.py"),
    Mutant("GPT", "Mask(ell, l)", "Mask(ell, 0)", SYSTEMS + "test_gpt_is_algorithm_10", "formal/systems.py"),
    Mutant("GPT", "embed(x, theta)", "embed(x[:1].expand(ell), theta)", SYSTEMS + "test_gpt_is_algorithm_10", "formal/systems.py"),
    Mutant("post_norm", "theta_l.gamma2, theta_l.beta2", "theta_l.gamma1, theta_l.beta1", SYSTEMS + "test_bert_without_its_own_parts_is_algorithm_9", "formal/systems.py"),
    Mutant("encode", "bidirectional(ell, ell)", "unidirectional(ell)", SYSTEMS + "test_bert_without_its_own_parts_is_algorithm_9", "formal/systems.py"),
    Mutant("BERTClassifier", "pooling(X)", "X[:, -1]", SYSTEMS + "test_its_classifier_is_eclassifier", "formal/systems.py"),
    Mutant("PreNormEDTransformer", "MLP: Perceptron = ReLU_MLP", "MLP: Perceptron = MLP", SYSTEMS + "test_with_norms_after_the_sub_layers_it_is_algorithm_8", "formal/systems.py"),
    Mutant("BERT_embed", " + theta.W_s[:, s[t]]", "", SYSTEMS + "test_a_segment_adds_its_embedding_to_its_tokens_alone"),
    Mutant("biased_unembed", " + theta.b_u[:, None]", "", SYSTEMS + "test_the_output_bias_multiplies_the_odds"),
    Mutant("scaled", "sqrt(len(theta.W_e)) * ", "", SYSTEMS + "test_every_departure_departs", "formal/embedding.py"),
    Mutant("shared", "stack[l // n * n]", "stack[l // n]", SHARING + "test_layers_that_share_are_the_first_of_them", "formal/sharing.py"),
    Mutant("batch_norm", "((X - m[:, None]) ** 2).sum(dim=1) / X.shape[1]", "((X - m[:, None]) ** 2).sum(dim=1) / (X.shape[1] - 1)", NORM + "test_batch_norm_is_torchs", "formal/norm.py"),
    Mutant("batch_norm", "X.sum(dim=1) / X.shape[1]", "X.sum(dim=1) / X.shape[0]", NORM + "test_batch_norm_is_torchs", "formal/norm.py"),
    Mutant("running", "part - m_bar[gamma].to(part) * scale", "part - m_bar[gamma].to(part)", NORM + "test_with_running_statistics_it_is_torchs_in_inference", "formal/norm.py"),
    Mutant("adversarial_loss", "epsilon * g / ", "-epsilon * g / ", ADVERSARIAL + "test_it_is_the_loss_and_the_loss_at_moved_embeddings", "formal/adversarial.py"),
    Mutant("adversarial_loss", "return loss(theta) + loss(moved(theta, r))", "return loss(moved(theta, r))", ADVERSARIAL + "test_it_is_the_loss_and_the_loss_at_moved_embeddings", "formal/adversarial.py"),
    Mutant("RMSnorm", "(e**2).sum()", "((e - e.mean()) ** 2).sum()", NORM + "test_rmsnorm_is_torchs"),
    Mutant("tanh_GELU", "A**3", "A**2", PERCEPTRON + "test_tanh_gelu_is_torchs"),
    Mutant("paper_sinusoids", "torch.arange(1, ell_max + 1", "torch.arange(0, ell_max", POSITIONS + "test_the_papers_sinusoids"),
    Mutant("relative_sinusoids", "(_pairs(d_r) - 1)", "_pairs(d_r)", POSITIONS + "test_vaswanis_sinusoids"),
    Mutant("RelativeAttention", "torch.arange(X.shape[1]) - torch.arange(Z.shape[1])[:, None]", "torch.arange(Z.shape[1])[:, None] - torch.arange(X.shape[1])", "parity/test_xlnet.py"),
    Mutant("RelativeAttention", "(Q + W_qkv.u[:, None])", "(Q + W_qkv.w[:, None])", "parity/test_xlnet.py"),
    Mutant("Gopher", "without_positions(theta)", "theta", POSITIONS + "test_gopher_trains_by_algorithm_13"),
    Mutant("Gopher", "layer_norm=RMSnorm, ", "", POSITIONS + "test_gopher_trains_by_algorithm_13"),
    Mutant("banded", "triu(w)", "triu(w + 1)", MASK + "test_a_band_is_w_wide"),
    Mutant("tied", "W_u=theta.W_e.T", "W_u=theta.W_u", GPT2 + "test_training_with_tied_weights"),
    Mutant("bos_pooling", "X[:, 0]", "X[:, -1]", POOLING + "test_each_pools_what_its_name_says"),
    Mutant("mean_pooling", " / length(X.T)", "", POOLING + "test_each_pools_what_its_name_says"),
    Mutant("max_pooling", "amax(", "amin(", POOLING + "test_each_pools_what_its_name_says"),
    Mutant("EClassifier", "pooling(X)", "X[:, 0]", POOLING + "test_the_classifier_takes_any_pooling"),
    Mutant("mean", "head(X)", "X", "model/test_pooling.py", "model/pooling.py"),
    Mutant("largest", "-torch.inf", "0.0", "model/test_pooling.py", "model/pooling.py"),
    Mutant("ECTraining", "-p(theta)[c_n].log()", "-p(theta)[c_n]", BERT + "test_classifier_training"),
    Mutant("MultiTaskClassifier", "b_c=theta.b_c[C]", "b_c=theta.b_c[: len(C)]", CLASSIFICATION + "test_a_head_is_the_classifier_given_that_the_class_is_one_of_its_own"),
    Mutant("ECInference", "argmax()", "argmin()", TRAINING + "test_classifier_learns_its_classes"),
    # Domains
    Mutant("parameters", "wider or _all_taken(theta, kinds, takers)", "True", DOMAINS + "test_refused", "formal/domains.py"),
    Mutant("parameters", "not isinstance(theta, kinds) or ", "", DOMAINS + "test_refused", "formal/domains.py"),
    Mutant("parameters", "not (wider or wider_layers)", "False", PERCEPTRON + "test_parts_that_an_mlp_does_not_know_are_refused", "formal/domains.py"),
    Mutant("_all_taken", "(*kinds, *members)", "kinds", EMBEDDING + "test_another_embedding_stands_in_its_place"),
    Mutant("_plain_layers", "type(layer) is not kind", "not isinstance(layer, kind)", PERCEPTRON + "test_parts_that_an_mlp_does_not_know_are_refused"),
    Mutant("shaped", "scope.sizes.setdefault(name, size) != size", "False", DOMAINS + "test_refused"),
    Mutant("_in_order", "thetas | tensors |", "tensors | thetas |", DOMAINS + "test_refused", "formal/domains.py"),
    Mutant("PARAMETERS", '"gamma", ', "", DOMAINS + "test_a_shape_is_checked_as_it_is_annotated"),
    Mutant("tokens", "ids >= theta.N_V", "ids > theta.N_V", DOMAINS + "test_refused"),
    Mutant("tokens", "len(ids) > (longest", "len(ids) >= (longest", GPT2 + "test_probabilities[11]"),
    Mutant("mask", "Mask.shape != shape", "Mask.numel() != shape[0] * shape[1]", DOMAINS + "test_refused"),
    Mutant("mask", "Mask.tril(-1).any() and not Mask.triu(1).any()", "Mask.triu(1).any() and not Mask.tril(-1).any()", LAWS + "test_causality_by_gradient"),
    Mutant("mask", "Mask.tril(-1).any() and not", "Mask.all() and not", DOMAINS + "test_refused"),
    Mutant("temperature", "tau >= 0", "tau >= -1", DOMAINS + "test_refused"),
    Mutant("probability", "0 < p < 1", "0 <= p <= 1", DOMAINS + "test_refused"),
    Mutant("real", "not part.isfinite().all()", "part.isinf().any()", DOMAINS + "test_refused"),
]  # fmt: skip


EQUALITY, MODULES, CHECKS, UNITS, SHARED, BATCH_NORM = (
    f"model/test_{name}.py::" for name in ("equality", "modules", "checks", "units", "sharing", "batch_norm")
)
DROPOUT = "model/test_dropout.py::"
D_EQ, E_EQ, C_EQ, ED_EQ = (
    EQUALITY + f"test_any_combination_of_departures[padded-{kind}]" for kind in ("DHyper", "EHyper", "ClassifierHyper", "EDHyper")
)
D_LAW, E_LAW, C_LAW, ED_LAW = (EQUALITY + f"test_invariances[padded-{kind}]" for kind in ("DHyper", "EHyper", "ClassifierHyper", "EDHyper"))
RELATIVE = "verify/test_verify.py::test_every_unit_and_every_preset_equals_the_formal_algorithm_and_keeps_the_laws[DTransformer-positions=relative]"
ED_ROTARY = EQUALITY + "test_every_departure_alone[padded-EDHyper-positions=rotary,d_attn=6,d_rot=4]"
BAND = EQUALITY + "test_every_departure_alone[padded-DHyper-band=3,ell_max=37]"
KERNELS, LOSS, LAYOUT = "model/test_kernels.py::", "model/test_loss.py::", "model/test_layout.py::"
MASKED = KERNELS + "test_a_band_is_dense_attention_under_a_mask"
LAYERS, ARCHITECTURES, ATTENTION, CACHE = (f"model/{name}.py" for name in ("layers", "architectures", "attention", "cache"))
NORM, MASK, POSITIONS, DECODER = (f"model/{name}.py" for name in ("norm", "mask", "positions", "decoder"))

DECODED, SAMPLERS, BEAMS = (f"inference/test_{name}.py::" for name in ("decoding", "samplers", "beams"))
CPU, SHORT = "cpu/test_kernels.py::", "cpu/test_kernels.py::test_one_token_of_one_row_takes_the_fast_path_or_the_usual_one"
GENERATE, DECODING = DECODED + "test_generation_is_algorithm_14[tied=True]", "inference/decoding.py"
ENGINE = [
    # Norms, attention, layers
    Mutant("_in_every_layer", "torch.zeros_like(part) if gradient else part.clone()", "part.clone()", SHARED + "test_theta_has_the_gradient_in_the_first_of_the_layers", "model/bridge.py"),
    Mutant("_in_first_layer", "int(inside[0]) * hyper.shared", "int(inside[0])", SHARED + "test_theta_goes_there_and_back", "model/bridge.py"),
    Mutant("Hyper", "return l // self.shared", "return l % self.parameter_sets(next(iter(self.stacks)))", SHARED + "test_a_model_is_the_one_whose_layers_are_equal", "hyper/hyper.py"),
    Mutant("BatchNorm", "m.lerp_(mean.to(m), MOMENTUM)", "m.lerp_(mean.to(m), 1 - MOMENTUM)", BATCH_NORM + "test_statistics_are_those_of_all_tokens_and_of_no_padding", NORM),
    Mutant("BatchNorm", "correction=0", "correction=1", BATCH_NORM + "test_statistics_are_those_of_all_tokens_and_of_no_padding", NORM),
    Mutant("BatchNorm", "torch.compiler.is_compiling() or torch._C._current_graph_task_id() == -1", "True", BATCH_NORM + "test_activation_checkpointing_counts_a_batch_once", NORM),
    Mutant("of_blocks", "logits[which, block.start : block.stop]", "logits[which]", "tasks/test_multi.py::test_a_text_s_loss_does_not_depend_on_other_heads", "tasks/losses.py"),
    Mutant("quotas", "total * weight / sum(weights)", "total / len(weights)", "data/test_mixture.py::test_every_batch_has_its_share_of_each_data_set", "data/mixture.py"),
    Mutant("Mixture", "epoch * count + np.arange(count)", "np.arange(count)", "data/test_mixture.py::test_every_row_is_drawn_once_before_any_is_drawn_again", "data/mixture.py"),
    Mutant("_by_length", "if sets is None", "if True", "data/test_mixture.py::test_every_batch_has_its_share_of_each_data_set", "data/batches.py"),
    Mutant("_row_norms", "[rows, None]", ".max().expand(len(rows), 1)", "tasks/test_adversarial.py::test_a_batch_has_the_loss_and_the_gradient_of_its_rows", "tasks/adversarial.py"),
    Mutant("layer_norm", "gamma, beta, eps", "gamma, beta", D_EQ, NORM),
    Mutant("layer_norm", "gamma, beta, eps", "gamma, None, eps", D_EQ, NORM),
    Mutant("Attention", "q, k, v = heads.split_qkv", "k, q, v = heads.split_qkv", E_EQ, ATTENTION),
    Mutant("_split", "list(rows.values())", "list(rows.values())[::-1]", UNITS + "test_the_formal_theta_goes_there_and_back " + E_EQ),
    Mutant("by_row", ".transpose(1, 2)", ".transpose(1, 2).flip(2)", D_LAW, "model/heads.py"),
    Mutant("Attention", "self.keys_and_values(Z, z)", "self.keys_and_values(X, z)", ED_EQ, ATTENTION),
    Mutant("Attention", "None if token_mask is None else", "None if True else", E_LAW, ATTENTION),
    Mutant("Attention", "else token_mask[:, None, None]", "else ~token_mask[:, None, None]", E_EQ, ATTENTION),
    Mutant("Attention", "self.dropout if self.training else 0.0", "self.dropout", DROPOUT + "test_dropout_is_for_training_only", ATTENTION),
    Mutant("_causal", "causal=True", "causal=False", D_EQ, MASK),
    Mutant("_bidirectional", "mask=padding", "mask=None", E_LAW, MASK),
    Mutant("_banded", "kernels.banded(q, k, v, w, dropout=dropout)", "kernels.dense(q, k, v, causal=True, dropout=dropout)", BAND, MASK),
    Mutant("formal_mask", "formal(values[l], ell)", "formal(values[0], ell)", BAND, MASK),
    Mutant("Attention", "step.visible(self.width, first)", "step.visible(None, first)", D_LAW, ATTENTION),
    Mutant("Relative", "by_distance.gather(3, distances)", "by_distance", RELATIVE, POSITIONS),
    Mutant("Relative", "q + u[:, None]", "q", RELATIVE, POSITIONS),
    Mutant("Relative", "attention_theta = RelativeMHAttentionTheta", "attention_theta = MHAttentionTheta", UNITS + "test_the_formal_theta_goes_there_and_back", POSITIONS),
    Mutant("POSITIONS", "Sinusoids(paper_sinusoids)", "Sinusoids(sinusoids)", UNITS + "test_every_departure_departs", POSITIONS),
    Mutant("POSITIONS", '"none": NoPositions()', '"none": Learned()', UNITS + "test_every_departure_departs", POSITIONS),
    Mutant("_tanh_gelu", 'partial(F.gelu, approximate="tanh")', "F.gelu", UNITS + "test_every_departure_departs", "model/mlp.py"),
    Mutant("Attention", "kernels.decoding(q, k, v, cache.cross_mask)", "kernels.decoding(q, k, v, None)", ED_LAW, ATTENTION),
    Mutant("Attention", '"W_o", "b_o"', '"W_o", ""', D_EQ, ATTENTION),
    Mutant("Attention", '"W_kv", "b_kv"', '"W_kv", ""', ED_EQ, ATTENTION),
    Mutant("Sublayers", "return X if self.norm_first else self._norm(X, i)", "return X", E_EQ, LAYERS),
    Mutant("Sublayers", "self._norm(X, i) if self.norm_first else X", "self._norm(X, i)", E_EQ, LAYERS),
    Mutant("Sublayers", "self.dropout, self.training) if self.dropout and self.training else", "self.dropout, True) if self.dropout else", DROPOUT + "test_dropout_is_for_training_only", LAYERS),
    Mutant("Sublayers", "X + F.dropout(sublayer, self.dropout, self.training)", "F.dropout(X + sublayer, self.dropout, self.training)", DROPOUT + "test_dropout_stands_where_the_formal_algorithms_have_it", LAYERS),
    Mutant("MLP", ", self.activation)", ")", D_EQ, "model/mlp.py"),
    Mutant("Layer", "self._before(X if self.parallel else after, 2)", "self._before(X if self.parallel else after, 1)", D_EQ, LAYERS),
    Mutant("Layer", "self._with_mlp(X, self.W(", "self._with_mlp(self._before(X, 1), self.W(", D_EQ, LAYERS),
    Mutant("DecoderLayer", "self.W_ed.cross(self._before(X, 4)", "self.W_ed.cross(self._before(X, 3)", ED_EQ, LAYERS),
    Mutant("EDHyper", '"dec": Causal()', '"dec": Mask()', ED_EQ, "hyper/hyper.py"),
    Mutant("DecoderLayer", "self.W_ed.decode_cross(self._before(X, 4), cache, l, step)", "self.W_ed.decode_cross(self._before(X, 4), cache, 0, step)", ED_LAW, LAYERS),
    # Kernels
    Mutant("banded", "t_z > t_x - w", "t_z >= t_x - w", MASKED, "model/kernels.py"),
    Mutant("banded", "band & early", "band & (early | True)", MASKED, "model/kernels.py"),
    Mutant("banded", "torch.arange(1 - w, b", "torch.arange(-w, b - 1", MASKED, "model/kernels.py"),
    Mutant("banded", "if ell <= w:", "if ell <= w + 1:", MASKED, "model/kernels.py"),
    Mutant("banded", "if ell <= w:", "if True:", KERNELS + "test_the_work_of_a_band_grows_as_its_length", "model/kernels.py"),
    Mutant("relative", "q + u[:, None]", "q", KERNELS + "test_relative_positions", "model/kernels.py"),
    Mutant("relative", "q + w[:, None]", "q + u[:, None]", KERNELS + "test_relative_positions", "model/kernels.py"),
    Mutant("relative", "R.flip(1)", "R", KERNELS + "test_relative_positions", "model/kernels.py"),
    Mutant("shift", "[..., 1:, :]", "[..., :-1, :]", KERNELS + "test_shifting_turns_distances_into_positions", "model/kernels.py"),
    Mutant("scored", "bias / math.sqrt(q.shape[-1])", "bias", KERNELS + "test_relative_positions", "model/kernels.py"),
    Mutant("scored", "~mask", "mask", KERNELS + "test_relative_positions", "model/kernels.py"),
    # The cache
    Mutant("Step", "keys <= queries", "keys < queries", D_LAW, CACHE),
    Mutant("Step", "keys > queries - w", "keys >= queries - w", D_LAW, CACHE),
    Mutant("Step", "min(self.before) - w + 1", "min(self.before) - w + 2", D_LAW, CACHE),
    Mutant("Cache", "positions = step.positions[rows, new]", "positions = new", D_LAW, CACHE),
    Mutant("Cache", "torch.arange(before[0], end", "torch.arange(0, end - before[0]", D_LAW, CACHE),
    Mutant("Cache", "[self.lengths[row] for row in order]", "self.lengths", D_LAW, CACHE),
    Mutant("Cache", "part.copy_(other)", "pass", ED_LAW, CACHE),
    Mutant("Attention", "padding, self.dropout if self.training else 0.0)", "padding, 0.0)", DROPOUT + "test_attention_weights_are_dropped_in_every_kind_of_attention", ATTENTION),
    Mutant("evaluating", "module.training = False", "pass", DROPOUT + "test_decoding_drops_nothing", DECODER),
    Mutant("Cache", "else self.cross_mask.index_select(0, index)", "else self.cross_mask", ED_LAW, CACHE),
    Mutant("Cache", "end > ell", "end > ell + 1", CHECKS + "test_the_cache", CACHE),
    Mutant("Cache", "self.lengths = list(lengths)", "pass", MODULES + "test_a_cache_may_forget", CACHE),
    # Ragged batches
    Mutant("Layout", ".argsort()", "", "model/test_pooling.py", "model/layout.py"),
    Mutant("Layout", "self.token_index % self.shape[1]", "self.token_index // self.shape[1]", D_EQ, "model/layout.py"),
    Mutant("layout", "all(length == shape[1]", "all(length >= 1", E_LAW, "model/layout.py"),
    Mutant("_side", "cumsum(0) - 1", "cumsum(0) - 2", E_EQ, "model/layout.py"),
    Mutant("_buckets", "<= KERNEL_CALL_COST", "<= 10 * KERNEL_CALL_COST", LAYOUT + "test_padding_adds_less_than_the_calls_it_saves", "model/layout.py"),
    # Architectures
    Mutant("token_rows", "X * sqrt(hyper.d_e)", "X * hyper.d_e", D_EQ, "model/embedding.py"),
    Mutant("positioned", "W_p[:ell]", "W_p[-ell:]", D_EQ, "model/embedding.py"),
    Mutant("segmented", "if hyper.embedding_norm:", "if False:", E_EQ, "model/embedding.py"),
    Mutant("segment_rows", '("W_s")[0]', '("W_s")[-1]', CHECKS + "test_segments", "model/embedding.py"),
    Mutant("matrix_name", '"W_e" if hyper.tied else "W_u"', '"W_e"', D_EQ, "model/unembedding.py"),
    Mutant("DecoderOnly", 'return NORMS[self.hyper.norm].apply(self, X, "gamma", self.hyper.eps)', "return X", D_EQ, "model/decoder.py"),
    Mutant("Decoder", "X = self.last_norm(X)", "pass", D_LAW, DECODER),
    Mutant("Decoder", "step.all_positions(ids.device)", "step.all_positions(ids.device) * 0", D_LAW, DECODER),
    Mutant("projected", '"b_f", MLPS[hyper.activation].activation)', '"b_f")', C_EQ, "model/head.py"),
    Mutant("EDTransformer", 'self._final(Z, "gamma_enc")', 'self._final(Z, "gamma_dec")', ED_EQ, ARCHITECTURES),
    Mutant("EDTransformer", 'return self._final(X, "gamma_dec")', 'return self._final(X, "gamma_enc")', ED_EQ, ARCHITECTURES),
    Mutant("within", "most >= count", "most > count", CHECKS + "test_tokens_and_lengths", "model/checks.py"),
    Mutant("row_lengths", "least <= length <= shape[1]", "length <= shape[1]", CHECKS + "test_tokens_and_lengths", "model/checks.py"),
    # The loss
    Mutant("_run", "smoothing - 1)", "-1)", LOSS + "test_it_is_cross_entropy", "model/loss.py"),
    Mutant("_run", "beta=float(start > 0)", "beta=0.0", LOSS + "test_it_is_cross_entropy", "model/loss.py"),
    Mutant("_run", " - smoothing / N_V * total", "", LOSS + "test_it_is_cross_entropy", "model/loss.py"),
    Mutant("_run", "most.to(precise) - P.gather(1, at).to(precise).log()", "of_target - P.gather(1, target).log()", LOSS + "test_a_target_of_probability_0_has_a_finite_loss", "model/loss.py"),
    Mutant("_run", "max(1, -(-len(X) * N_V // LOGITS))", "1", LOSS + "test_no_more_logits_are_held_than_said", "model/loss.py"),
    Mutant("_LogLoss", "gradient.mul_(scale)", "gradient", LOSS + "test_it_is_cross_entropy", "model/loss.py"),
    # The bridge, hyperparameters, costs
    Mutant("_together", "for one in hyper.matrices[matrices]}", "for one in reversed(hyper.matrices[matrices])}", "model/test_bridge.py::test_there_and_back", "model/bridge.py"),
    Mutant("theta_of", "value.to(dtype, copy=True)", "value.to(dtype)", "model/test_bridge.py::test_theta_is_a_copy_in_float64", "model/bridge.py"),
    Mutant("_as_it_acts", "theta = tied(theta)", "pass", D_EQ, "model/counterpart.py"),
    Mutant("formal_attention", "head = positions.formal_head(hyper)", 'head = POSITIONS["none"].formal_head(hyper)', UNITS + "test_every_departure_departs", "model/counterpart.py"),
    Mutant("theta_of", "(hyper.special.mask, hyper.special.bos, hyper.special.eos)", "None", "model/test_bridge.py::test_special_tokens_go_along", "model/bridge.py"),
    Mutant("initialise", "sigma /= sqrt", "sigma *= sqrt", MODULES + "test_weights_start_as_hyper_says", "model/parameters.py"),
    Mutant("Causal", "(ell + 1) / 2", "ell / 2", "hyper/test_mask.py::test_a_query_sees_as_many_keys_as_the_formal_mask_has", "hyper/mask.py"),
    Mutant("Band", "(ell - w) * w", "ell * w", "hyper/test_mask.py::test_a_query_sees_as_many_keys_as_the_formal_mask_has", "hyper/mask.py"),
    Mutant("Relative", "2 * keys * heads.H * heads.d_attn", "0", "hyper/test_cost.py::test_arithmetic_is_as_torch_counts_it", "hyper/positions.py"),
    Mutant("cache_bytes", '(1 + ("enc" in hyper.stacks))', "1", "hyper/test_cost.py::test_the_cache_takes_what_is_said", "hyper/cost.py"),
    Mutant("SpecialTokens", "index >= token", "index > token", "hyper/test_special.py::test_ordinary_tokens_are_all_but_the_special_ones", "hyper/special.py"),
    # Using a model
    Mutant("Decoding", "self.rows[row][-ell_max:]", "self.rows[row][:ell_max]", GENERATE, DECODING),
    Mutant("Decoding", "self.rows[row][cached[i] :] if row in active else []", "self.rows[row][cached[i] :]", GENERATE, DECODING),
    Mutant("Decoding", "row // self.group_size in groups", "row in active", DECODED + "test_rows_of_one_z_stay_together", DECODING),
    Mutant("begin", "[_copy_generator(generator) for _ in rows", "[generator for _ in rows", GENERATE, DECODING),
    Mutant("continuations", "results[i] = batch", "results[k] = batch", GENERATE, DECODING),
    Mutant("_windows", "[:, -1]", "[:, 0]", GENERATE, DECODING),
    Mutant("TopP", "P.cumsum(dim=1) - P >= self.p", "P.cumsum(dim=1) >= self.p", SAMPLERS + "test_samplers_are_those_of_hugging_face", "inference/samplers.py"),
    Mutant("TopK", "logits < least", "logits <= least", SAMPLERS + "test_samplers_are_those_of_hugging_face", "inference/samplers.py"),
    Mutant("RepetitionPenalty", "old * self.penalty", "old / self.penalty", SAMPLERS + "test_samplers_are_those_of_hugging_face", "inference/samplers.py"),
    Mutant("_done", "state.beams[0][1] / ell**alpha", "state.beams[0][1]", BEAMS + "test_the_search_is_what_one_would_write_down[1-2-1.0]", "inference/beams.py"),
    Mutant("_extend", "if rank < beams:", "if True:", BEAMS + "test_the_search_is_what_one_would_write_down[25-3-0.0]", "inference/beams.py"),
    Mutant("_search", "lost.append(state.index)", "pass", BEAMS + "test_greedy_decoding_is_better_where_beams_lose_it", "inference/beams.py"),
    Mutant("Cache", "groups[::size]", "groups[: len(groups) // size]", BEAMS + "test_scores_and_order", "model/cache.py"),
    Mutant("_in_steps", "X.amax(dim=1, keepdim=True)", "X.amax()", CPU + "test_a_product_in_8_bits_is_exact", "cpu/linear.py"),
    Mutant("_in_steps", "/ 255).float()", "/ 254).float()", CPU + "test_a_product_in_8_bits_is_the_same_alone", "cpu/linear.py"),
    Mutant("BlockedLinear", "_padded(b[:, None])", "_padded(b[:, None].flip(0))", CPU + "test_every_form_multiplies_alike", "cpu/linear.py"),
    Mutant("BlockedLinear", ".view(1, -1)[:, :m]", ".view(1, -1)[:, -m:]", CPU + "test_every_form_multiplies_alike", "cpu/linear.py"),
    Mutant("PackedLinear", "if activation not in FUSED", "if False", CPU + "test_every_form_multiplies_alike", "cpu/linear.py"),
    Mutant("_attention", "-width:], values[:, -width:]", "1 - width :], values[:, 1 - width :]", SHORT, "cpu/single_token.py"),
    Mutant("_fast_path", "positions[t : t + 1]", "positions[: 1]", SHORT, "cpu/single_token.py"),
    Mutant("_known", "type(attention.positions) in POSITIONS_KNOWN", "True", CPU + "test_a_unit_that_the_fast_path_does_not_know_takes_the_usual_path", "cpu/single_token.py"),
    Mutant("_known", "original_class(model) in (DTransformer, Gato, EDTransformer)", "True", CPU + "test_a_model_or_an_attention_of_a_derived_class_takes_the_usual_path", "cpu/single_token.py"),
    Mutant("_known", "original_class(attention) is Attention", "True", CPU + "test_a_model_or_an_attention_of_a_derived_class_takes_the_usual_path", "cpu/single_token.py"),
    Mutant("WrappedDecoder", "any(kernel.changed() for kernel in self.all_kernels)", "False", CPU + "test_a_packed_copy_whose_weights_have_changed_is_refused", "cpu/wrapped.py"),
    Mutant("_shown", 'shown["special"] = SpecialTokens(*theta.special)', "pass", "model/test_bridge.py::test_special_tokens_go_along", "model/bridge.py"),
    Mutant("_known", " and type(layer.mlp) in MLPS_KNOWN", "", CPU + "test_a_unit_that_the_fast_path_does_not_know_takes_the_usual_path", "cpu/single_token.py"),
    Mutant("Fingerprint", " and torch.equal(self.product, other.product)", "", CPU + "test_what_was_made_of_a_matrix_is_kept_while_it_is_the_same", "cpu/fingerprint.py"),
    Mutant("Fingerprint", "(self.address, self.version) == (other.address, other.version)", "True", CPU + "test_a_fingerprint_shows_every_change_that_torch_counts", "cpu/fingerprint.py"),
    Mutant("Decoder.is_one_token", " < self.hyper.N_V", "", SHORT, "model/decoder.py"),
    Mutant("WrappedDecoder", '"single_token": None}', '"single_token": self.single_token}', CPU + "test_a_copy_of_a_packed_model_is_on_its_own", "cpu/wrapped.py"),
    Mutant("pack", "isinstance(model, Wrapped) or", "", CPU + "test_what_cannot_be_packed_stays_as_it_is", "cpu/packing.py"),
    Mutant("_pieces", "ell_max // 2", "ell_max", "inference/test_one_pass.py::test_scores_beyond_ell_max_have_half_of_it_as_context", "inference/one_pass.py"),
    Mutant("_pseudo", "ordinary[i : i + ROWS]", "[t - 1 for t in ordinary[i : i + ROWS]]", "inference/test_one_pass.py::test_an_encoder_scores_each_token_given_all_others", "inference/one_pass.py"),
    # The figures
    Mutant("calibration", "np.ceil(confidence * bins).astype(int) - 1", "(confidence * bins).astype(int)", FIGURES + "test_a_bin_has_its_upper_end", "evaluation/classes.py"),
    Mutant("expected_calibration_error", "abs(each.accuracy - each.confidence)", "(each.accuracy - each.confidence)", FIGURES + "test_the_calibration_error_is_a_mean_over_bins", "evaluation/classes.py"),
    Mutant("confusion_matrix", "(true, predicted)", "(predicted, true)", FIGURES + "test_confusion_has_a_row_for_every_true_class", "evaluation/classes.py"),
    Mutant("token_error_rate", "count[0] / max(1, count[1])", "count[0]", "evaluation/test_pairs.py::test_the_error_rate_is_that_of_the_nearest_reference", "evaluation/pairs.py"),
    # Cleaning
    Mutant("shingles", "hashed * FACTOR + units", "hashed + units", DUPLICATES + "test_shingles_know_the_order_and_not_the_case", "data/duplicates.py"),
    Mutant("signature", "np.minimum(least, ", "np.maximum(0 * least, ", DUPLICATES + "test_a_signature_does_not_depend_on_order_repetition_or_chunks", "data/duplicates.py"),
    Mutant("signature", "^ SEEDS", "^ SEEDS[:1]", DUPLICATES + "test_the_estimate_is_near_the_jaccard_similarity", "data/duplicates.py"),
    Mutant("band_width", "(K // r) >= RECALL", "(K // r) <= RECALL", DUPLICATES + "test_bands_miss_little_at_the_threshold", "data/duplicates.py"),
    Mutant("near_duplicates", "range(0, K - r + 1, r)", "range(0, r)", DUPLICATES + "test_bands_find_what_all_pairs_find", "data/duplicates.py"),
    Mutant("near_duplicates", "continue", "pass", DUPLICATES + "test_only_rows_that_stay_remove_others_and_only_of_their_class", "data/duplicates.py"),
    Mutant("normalise", "while (changed := _once(text, rules, breaks)) != text:", "if (changed := _once(text, rules, breaks)) != text:", CLEANING + "test_normalising_twice_is_as_once", "data/cleaning.py"),
    Mutant("decide", "each + np.uint64(i)", "each", CLEANING + "test_the_sides_of_a_pair_are_told_apart", "data/cleaning.py"),
    Mutant("_by_loss", "> np.log(rules.max_perplexity)", "> rules.max_perplexity", CLEANING + "test_losses", "data/cleaning.py"),
    # The formal systems
    Mutant("post_norm", "MHAttention(X, X,", "MHAttention(2 * X, X,", SYSTEMS + "test_bert_without_its_own_parts_is_algorithm_9", "formal/systems.py"),
    Mutant("pre_norm", "return X + dropout(", "return X_tilde + dropout(", SYSTEMS + "test_gpt_is_algorithm_10", "formal/systems.py"),
    Mutant("pre_norm_decoder", "MHAttention(X_tilde, Z, theta_l.W_ed", "MHAttention(X, Z, theta_l.W_ed", "parity/test_engine.py::test_the_pre_norm_transformer", "formal/systems.py"),
    Mutant("BERT_embed", "theta.W_s[:, s[t]]", "theta.W_s[:, s[0]]", SYSTEMS + "test_a_segment_adds_its_embedding_to_its_tokens_alone"),
    Mutant("head", "normalized(X, theta.gamma, theta.beta, eps, layer_norm)", "normalized(X, theta.gamma, theta.beta, 1e-5, layer_norm)", "parity/test_engine.py::test_bert_as_published", "formal/head.py"),
    Mutant("PreNormEDTransformer", "theta.gamma_enc, theta.beta_enc", "theta.gamma_dec, theta.beta_dec", "parity/test_engine.py::test_the_pre_norm_transformer", "formal/systems.py"),
    Mutant("scaled", "sqrt(len(theta.W_e))", "len(theta.W_e)", EMBEDDING + "test_scaled_embeddings", "formal/embedding.py"),
    Mutant("_descends", "norm == 0 or now < then", "norm == 0 or now != then", "trace/test_record.py::test_the_default_eta_lowers_the_loss_at_every_step[0]", "trace/example.py"),
    Mutant("_parts", 'f"-{ast.unparse(node.func.value)}"', "ast.unparse(node.func.value)", "trace/test_record.py::test_the_default_eta_lowers_the_loss_at_every_step[0]", "trace/source.py"),
]  # fmt: skip

RUNNING = "training/test_validation.py::"
TRAINER = [
    Mutant("better", "== HIGHER[select]", "!= HIGHER[select]", RUNNING + "test_what_is_better", "tasks/task.py"),
    Mutant("better", "figures[name] != best[name]", "True", RUNNING + "test_the_selected_figure_chooses_and_stops", "tasks/task.py"),
    Mutant("validation_sample", "(2 if decoded else 1)", "1", RUNNING + "test_the_sample_costs_what_validation_may_cost", "training/validation.py"),
    Mutant("_affordable", "budget * share / cost", "budget / cost", RUNNING + "test_the_sample_costs_what_validation_may_cost", "training/validation.py"),
    Mutant("fixed_sample", "permuted(np.arange(count), n, SPLIT_SEED, purpose)", "np.arange(count)", RUNNING + "test_the_sample_is_fixed", "training/validation.py"),
    Mutant("Loop._measure_best", "self._restore_best()", "pass", RUNNING + "test_a_sample_chooses_and_all_rows_measure_the_best", "training/loop.py"),
    Mutant("Loop._figures", "self.world, self.autocast, which)", "self.world, self.autocast)", RUNNING + "test_a_sample_chooses_and_all_rows_measure_the_best", "training/loop.py"),
]  # fmt: skip

HEADS, ROTARY, GATE, PATTERN, SCALE, BIAS, SYSTEM = (
    f"formal/test_{name}.py::" for name in ("heads", "positions", "mlp", "mask", "norm", "bias", "decoders")
)
BY_PARTS = SYSTEM + "test_a_system_is_gpt_with_the_components_of_its_preset"
LLAMA, MISTRAL, QWEN2, QWEN3, GEMMA, NEOX, SCALED_LLAMA = (
    f"[{name}]" for name in ("smollm2-135m", "mistral-7b", "qwen2.5-0.5b", "qwen3-0.6b", "gemma-2b", "pythia-70m", "llama-3.2-1b")
)
TODAY = "model/test_decoders.py::"
VALUES_AND_GRADIENTS, CACHED, FAST = (
    TODAY + name
    for name in (
        "test_values_and_gradients_are_those_of_the_formal_algorithm",
        "test_decoding_with_the_cache_says_the_same",
        "test_one_token_at_a_time_says_the_same",
    )
)
FREQUENCIES, CACHE_HEADS = (
    TODAY + "test_the_frequencies_are_those_of_the_hyperparameters",
    TODAY + "test_the_cache_has_the_heads_of_keys_and_values_alone",
)
HYPER = "hyper/test_hyper.py::"
DECODERS = [
    # Rotary positions
    Mutant("rotate", "a * phi.cos() - b * phi.sin()", "a * phi.cos() + b * phi.sin()", ROTARY + "test_a_rotation_keeps_lengths_and_starts_with_none", "formal/positions.py"),
    Mutant("rotate", "phi = t * omega", "phi = -t * omega", ROTARY + "test_a_rotation_by_hand", "formal/positions.py"),
    Mutant("rotate", "e[:n], e[n : 2 * n]", "e[: 2 * n : 2], e[1 : 2 * n : 2]", ROTARY + "test_a_rotation_by_hand", "formal/positions.py"),
    Mutant("rotate", "phi = t * omega", "phi = (t + 1) * omega", ROTARY + "test_a_rotation_keeps_lengths_and_starts_with_none", "formal/positions.py"),
    Mutant("rotate", "n = len(omega)", "n = len(e) // 2", BY_PARTS + LLAMA, "formal/positions.py"),
    Mutant("rotary_frequencies", '_pairs(d_rot, "d_rot") - 1', '_pairs(d_rot, "d_rot")', ROTARY + "test_rotary_frequencies_by_hand", "formal/positions.py"),
    Mutant("rotary_frequencies", "-2 * (", "-1 * (", ROTARY + "test_rotary_frequencies_by_hand", "formal/positions.py"),
    Mutant("rotary_frequencies", '_number("base", base) **', "10000.0 **", ROTARY + "test_rotary_frequencies_by_hand", "formal/positions.py"),
    Mutant("linear_scaling", 'omega / _number("factor", factor)', 'omega * _number("factor", factor)', ROTARY + "test_scaled_linearly_a_later_position_is_an_earlier_one", "formal/positions.py"),
    Mutant("llama3_scaling", "ell * omega / (2 * pi)", "ell * omega", ROTARY + "test_llama_3_scales_slow_pairs_by_hand", "formal/positions.py"),
    Mutant("llama3_scaling", "(1 - s) * omega / factor + s * omega", "s * omega / factor + (1 - s) * omega", ROTARY + "test_llama_3_scales_slow_pairs_by_hand", "formal/positions.py"),
    Mutant("llama3_scaling", ".clamp(0, 1)", "", ROTARY + "test_llama_3_scales_slow_pairs_by_hand", "formal/positions.py"),
    Mutant("llama3_scaling", "/ (high - low)", "/ high", ROTARY + "test_llama_3_scales_slow_pairs_by_hand", "formal/positions.py"),
    Mutant("llama3_scaling", "if high <= low:", "if high < low:", DOMAINS + "test_refused", "formal/positions.py"),
    Mutant("RotaryAttention", "rotate(K[:, t], t, omega)", "rotate(K[:, t], t + 1, omega)", ROTARY + "test_rotary_attention_is_attention_of_turned_queries_and_keys", "formal/positions.py"),
    Mutant("RotaryAttention", "rotate(Q[:, t], t, omega)", "Q[:, t]", ROTARY + "test_rotary_attention_sees_distances_only", "formal/positions.py"),
    Mutant("frequencies", "<= d_attn // 2:", "<= d_attn:", DOMAINS + "test_refused", "formal/domains.py"),
    Mutant("RotaryTable", "-phi.sin(), phi.sin()", "phi.sin(), -phi.sin()", VALUES_AND_GRADIENTS + LLAMA, "model/positions.py"),
    Mutant("turned", "part.roll(n, dims=-1)", "part.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)", VALUES_AND_GRADIENTS + LLAMA, "model/positions.py"),
    Mutant("Attention", "self.positions.rotate(self, q, tokens), self.positions.rotate(self, k, tokens), v", "self.positions.rotate(self, q, tokens), k, v", VALUES_AND_GRADIENTS + LLAMA, "model/attention.py"),
    Mutant("Attention", "return self.positions.rotate(self, k, tokens), v", "return k, v", ED_ROTARY, ATTENTION),
    Mutant("Attention", "k, v = self.keys_and_values(Z, z)", "k, v = self.keys_and_values(Z, x)", ED_ROTARY, ATTENTION),
    Mutant("DecoderLayer", "mask=Mask(), positions=hyper.positions", "mask=Mask(), positions='none'", ED_ROTARY, LAYERS),
    Mutant("_cross", "if angles is not None", "if False", "cpu/test_kernels.py::test_one_token_of_one_row_takes_the_fast_path_or_the_usual_one[EDHyper-positions=rotary-True]", "cpu/single_token.py"),
    Mutant("Rotary", "hyper.ell_max, hyper.sizes()[\"d_rot\"]", "hyper.ell_max, hyper.heads.d_attn // 2 * 2", VALUES_AND_GRADIENTS + NEOX, "model/positions.py"),
    Mutant("RotaryTable", "_frequencies(self.d_rot, self.base, self.scaling)", "_frequencies(self.d_rot, self.base, None)", VALUES_AND_GRADIENTS + SCALED_LLAMA, "model/positions.py"),
    Mutant("frequencies", 'hyper.sizes()["d_rot"]', "hyper.heads.d_attn", FREQUENCIES, "model/positions.py"),
    Mutant("_frequencies", "rotary_frequencies(d_rot, base)", "rotary_frequencies(d_rot)", FREQUENCIES, "model/positions.py"),
    Mutant("_frequencies", "llama3_scaling(omega, *scaling)", "llama3_scaling(rotary_frequencies(d_rot), *scaling)", FREQUENCIES, "model/positions.py"),
    Mutant("_frequencies", "linear_scaling(omega, *scaling)", "omega", FREQUENCIES, "model/positions.py"),
    Mutant("Step", "self.positions.expand(len(self.before), -1).flatten()", "self.positions.expand(len(self.before), -1).mT.flatten()", CACHED + LLAMA, "model/cache.py"),
    Mutant("Rotary", '"d_rot": hyper.heads.d_attn // 2 * 2', '"d_rot": hyper.heads.d_attn // 4 * 2', HYPER + "test_a_key_for_every_head_is_the_paper", "hyper/positions.py"),
    Mutant("Rotary", "scaling[1] < scaling[2]", "scaling[1] <= scaling[2]", HYPER + "test_what_today_s_decoders_cannot_be_is_refused", "hyper/positions.py"),
    Mutant("Rotary", "d_rot % 2 == 0 and 2 <= d_rot <= d_attn", "d_rot % 2 == 0 and 2 <= d_rot", HYPER + "test_what_today_s_decoders_cannot_be_is_refused", "hyper/positions.py"),
    Mutant("_norm_of_row", "X * scale if zero is None else zero", "zero if zero is not None else X", FAST + GEMMA, "cpu/single_token.py"),
    Mutant("_norm_of_row", "float(torch.dot(x, x)) / d + eps", "float(torch.dot(x, x)) / d", FAST + LLAMA, "cpu/single_token.py"),
    Mutant("_norm_of_row", "if compute not in (rms_norm, rms_norm_1p) or", "if compute is None or", CPU + "test_one_token_of_one_row_takes_the_fast_path_or_the_usual_one", "cpu/single_token.py"),
    Mutant("_fast_path", "(turning[0][t], turning[1][t])", "(turning[0][t - 1], turning[1][t - 1])", FAST + LLAMA, "cpu/single_token.py"),
    Mutant("_room", 'rows["q"] + rows["k"]', 'rows["q"]', FAST + LLAMA, "cpu/single_token.py"),
    Mutant("_turn", "part, n = qk[:, :d_rot], d_rot // 2", "part, n = qk, qk.shape[1] // 2", FAST + NEOX, "cpu/single_token.py"),
    # Grouped queries
    Mutant("GroupedMHAttentionTheta", "h * len(self.W_k) // len(self.W_q)", "h % len(self.W_k)", HEADS + "test_a_group_has_its_keys_and_values_repeated", "formal/heads.py"),
    Mutant("GroupedMHAttentionTheta", "self.W_v[g], self.b_v[g]", "self.W_v[0], self.b_v[0]", HEADS + "test_a_group_has_its_keys_and_values_repeated", "formal/heads.py"),
    Mutant("GroupedMHAttentionTheta", 'sizes["H"] % sizes["H_kv"]', 'sizes["H"] < sizes["H_kv"]', HEADS + "test_what_the_heads_cannot_take", "formal/heads.py"),
    Mutant("GroupedMHAttention", "torch.cat(Y_h)", "torch.cat(Y_h[::-1])", HEADS + "test_the_heads_stand_in_order", "formal/heads.py"),
    Mutant("_grouped", "[:: H // H_kv]", "[:H_kv]", HEADS + "test_grouping_keeps_the_first_of_each_group", "formal/heads.py"),
    Mutant("repeated", "part.repeat_interleave(H // part.shape[1], dim=1)", "part.repeat(1, H // part.shape[1], 1, 1)", VALUES_AND_GRADIENTS + MISTRAL, "model/kernels.py"),
    Mutant("_RMSNorm", ".addcmul_(N, mean, value=-1)", "", VALUES_AND_GRADIENTS + LLAMA, "model/norm.py"),
    Mutant("_RMSNorm", ".addcmul_(N, mean, value=-1).mul_(r)", ".addcmul_(N, mean, value=-1)", VALUES_AND_GRADIENTS + LLAMA, "model/norm.py"),
    Mutant("_RMSNorm", "P = G * N", "P = G * X", VALUES_AND_GRADIENTS + LLAMA, "model/norm.py"),
    Mutant("cache_shapes", "(layers, batch, heads.H_kv, ell, heads.d_attn)", "(layers, batch, heads.H, ell, heads.d_attn)", CACHE_HEADS, "model/heads.py"),
    Mutant("decoding", "q.reshape(q.shape[0], k.shape[1], -1, q.shape[3])", "q.reshape(q.shape[0], -1, k.shape[1], q.shape[3]).transpose(1, 2)", CACHED + LLAMA, "model/kernels.py"),
    Mutant("decoding", "mask.repeat(*[1] * (mask.ndim - 2), H // k.shape[1], 1)", "mask.repeat_interleave(H // k.shape[1], dim=-2)", CACHED + LLAMA, "model/kernels.py"),
    Mutant("Heads", "return self.H_kv * (self.d_attn + self.d_mid)", "return self.H * (self.d_attn + self.d_mid)", CACHE_HEADS, "hyper/heads.py"),
    Mutant("DHyper", "self.H % self.H_kv == 0", "self.H >= self.H_kv", HYPER + "test_what_today_s_decoders_cannot_be_is_refused", "hyper/hyper.py"),
    Mutant("_room", "part.view(heads.H_kv, -1, len(part) // heads.counts[name])", "part.view(-1, heads.H_kv, len(part) // heads.counts[name]).transpose(0, 1)", FAST + LLAMA, "cpu/single_token.py"),
    Mutant("_attention", "1 / sqrt(W.heads.d_attn)", "1 / sqrt(W.heads.d_mid)", FAST + LLAMA, "cpu/single_token.py"),
    # Norms of queries and keys
    Mutant("NormedAttention", "norm(k, W_qkv.gamma_k, W_qkv.beta_k, eps)", "norm(k, W_qkv.gamma_q, W_qkv.beta_q, eps)", HEADS + "test_normalized_then_turned_then_compared", "formal/heads.py"),
    Mutant("NormedAttention", "rotate(norm(q, W_qkv.gamma_q, W_qkv.beta_q, eps), t)", "norm(rotate(q, t), W_qkv.gamma_q, W_qkv.beta_q, eps)", HEADS + "test_normalized_then_turned_then_compared", "formal/heads.py"),
    Mutant("NormedAttention", "rotate(norm(k, W_qkv.gamma_k, W_qkv.beta_k, eps), t)", "rotate(k, t)", HEADS + "test_by_hand", "formal/heads.py"),
    Mutant("Attention", 'self.qk_norm.apply(self, k, "gamma_k", self.eps)', 'self.qk_norm.apply(self, k, "gamma_q", self.eps)', VALUES_AND_GRADIENTS + QWEN3, "model/attention.py"),
    Mutant("Attention", "return self.positions.rotate(self, q, tokens), self.positions.rotate(self, k, tokens), v", "return (q, k, v) if self.qk_norm else (self.positions.rotate(self, q, tokens), self.positions.rotate(self, k, tokens), v)", VALUES_AND_GRADIENTS + QWEN3, "model/attention.py"),
    Mutant("_attention", '_norm(W, "_k", W.qk_norm)', '_norm(W, "_q", W.qk_norm)', FAST + QWEN3, "cpu/single_token.py"),
    Mutant("formal_attention", "rotate=positions.formal_rotation(hyper)", "rotate=POSITIONS[\"none\"].formal_rotation(hyper)", VALUES_AND_GRADIENTS + QWEN3, "model/counterpart.py"),
    Mutant("Qwen3", "partial(NormedAttention, eps=eps, rotate=partial(rotate, omega=omega))", "partial(NormedAttention, eps=eps)", BY_PARTS + QWEN3, "formal/decoders.py"),
    # Gated MLPs
    Mutant("SiLU", "A * torch.sigmoid(A)", "torch.sigmoid(A)", GATE + "test_silu_is_torchs", "formal/mlp.py"),
    Mutant("GatedMLP", "G * (W.W_mlp1 @ X + W.b_mlp1[:, None])", "SiLU(W.W_mlp1 @ X + W.b_mlp1[:, None]) * (W.W_gate @ X + W.b_gate[:, None])", GATE + "test_a_gate_by_hand", "formal/mlp.py"),
    Mutant("GatedMLP", "G * (W.W_mlp1 @ X", "G + (W.W_mlp1 @ X", GATE + "test_a_gate_of_ones_is_the_plain_mlp", "formal/mlp.py"),
    Mutant("GatedMLP", "W.W_gate @ X + W.b_gate[:, None]", "W.W_gate @ X", GATE + "test_a_gate_by_hand", "formal/mlp.py"),
    Mutant("Llama", "SiLU(layer.W_gate @ X_tilde) * (layer.W_mlp1 @ X_tilde)", "SiLU(layer.W_mlp1 @ X_tilde) * (layer.W_gate @ X_tilde)", BY_PARTS + LLAMA, "formal/decoders.py"),
    Mutant("Gated", "gate, value = module.linear(", "value, gate = module.linear(", VALUES_AND_GRADIENTS + LLAMA, "model/mlp.py"),
    Mutant("Gated", "self.activation(gate) * value", "self.activation(gate * value)", VALUES_AND_GRADIENTS + LLAMA, "model/mlp.py"),
    Mutant("_mlp", "gate, value = both(X)", "value, gate = both(X)", FAST + LLAMA, "cpu/single_token.py"),
    Mutant("MLPS", '"tanh_GEGLU": Gated(_tanh_gelu, tanh_GELU)', '"tanh_GEGLU": Gated(F.gelu, tanh_GELU)', VALUES_AND_GRADIENTS + GEMMA, "model/mlp.py"),
    # Windows
    Mutant("sparse", "pattern[l % len(pattern)]", "pattern[(l + 1) % len(pattern)]", PATTERN + "test_the_pattern_says_which_layers_have_the_band", "formal/mask.py"),
    Mutant("sparse", '== "1" else', '== "0" else', PATTERN + "test_the_pattern_says_which_layers_have_the_band", "formal/mask.py"),
    Mutant("banded", ".triu(w)", ".triu(w - 1)", PATTERN + "test_a_window_of_all_tokens_is_dense", "formal/mask.py"),
    Mutant("Mistral", "banded(ell, w)", "banded(ell, w + 1)", BY_PARTS + MISTRAL, "formal/decoders.py"),
    Mutant("DHyper", "self.band_pattern[l % len(self.band_pattern)]", "self.band_pattern[(l + 1) % len(self.band_pattern)]", HYPER + "test_the_pattern_names_the_layers_with_a_band", "hyper/hyper.py"),
    # Norms and embeddings of Gemma
    Mutant("RMSnorm_1p", "(1 + gamma)", "gamma", SCALE + "test_rmsnorm_1p_is_rmsnorm_with_one_more", "formal/norm.py"),
    Mutant("RMSnorm", "torch.sqrt(v + eps) * gamma", "torch.sqrt(v + eps) * (1 + gamma)", SCALE + "test_rmsnorm_is_torchs", "formal/norm.py"),
    Mutant("Gemma", "sqrt(len(theta.W_e)) * ", "", BY_PARTS + GEMMA, "formal/decoders.py"),
    Mutant("Gemma", "softmax(theta.W_e.T @ X)", "softmax(theta.W_u @ X)", SYSTEM + "test_gemma_by_its_departures", "formal/decoders.py"),
    Mutant("rms_norm_1p", "1 + gamma", "gamma", VALUES_AND_GRADIENTS + GEMMA, "model/norm.py"),
    Mutant("NORMS", "initial=0.0", "initial=1.0", TODAY + "test_every_scale_starts_at_one", "hyper/norm.py"),
    # Biases
    Mutant("BIASES", '("b_q", "b_k", "b_v")', '("b_q", "b_k")', BIAS + "test_which_biases_stay", "formal/bias.py"),
    Mutant("unbiased", "torch.zeros_like(part) if of_layer", "part if of_layer", BIAS + "test_which_biases_stay", "formal/bias.py"),
    Mutant("unbiased", 'getattr(path[0], "name", "") in DEPTHS and', "", BIAS + "test_which_biases_stay", "formal/bias.py"),
    Mutant("without_biases", "part.any()", "part.all()", BIAS + "test_a_system_refuses_biases_that_it_would_leave_out", "formal/bias.py"),
    Mutant("BIASES", '"", mlp=False', '"", mlp=True', TODAY + "test_a_model_has_the_biases_that_it_says", "hyper/heads.py"),
    Mutant("_as_it_acts", "theta = unbiased(theta, hyper.bias)", "pass", VALUES_AND_GRADIENTS + LLAMA, "model/counterpart.py"),
    # Parallel layers
    Mutant("parallel_norm", "normalized(X, theta_l.gamma2", "normalized(X + Y, theta_l.gamma2", "formal/test_systems.py::test_parallel_sub_layers_read_the_same_x", "formal/systems.py"),
    Mutant("parallel_norm", "return X + Y + dropout(", "return X + dropout(", "formal/test_systems.py::test_parallel_sub_layers_read_the_same_x", "formal/systems.py"),
    Mutant("GPTNeoX", "layer_norm(X[:, t], layer.gamma2, layer.beta2, eps)", "layer_norm((X + Y)[:, t], layer.gamma2, layer.beta2, eps)", BY_PARTS + NEOX, "formal/decoders.py"),
    Mutant("Layer", "X if self.parallel else after", "after", VALUES_AND_GRADIENTS + NEOX, "model/layers.py"),
    Mutant("_parallel", ".add_(X).add_(mlp(norm2(X), tokens, context))", ".add_(X).add_(mlp(norm1(X), tokens, context))", FAST + NEOX, "cpu/single_token.py"),
]  # fmt: skip

MODALITIES, EPISODES, WORLDS, GLYPHS, RECORD, ADAPTER, MIXED = (
    "tokenization/test_modalities.py::",
    "data/test_episodes.py::",
    "worlds/test_worlds.py::",
    "worlds/test_glyphs.py::",
    "worlds/test_record.py::",
    "worlds/test_adapter.py::",
    "model/test_gato.py::",
)

GATO_DATA = [
    # Slips of public implementations
    Mutant("bins", "np.minimum((BINS / 2 * (y + 1)).astype(np.int64), BINS - 1)", "(BINS / 2 * (y + 1)).astype(np.int64)", MODALITIES + "test_the_ends_stay_in_range", "tokenization/values.py"),
    Mutant("bins", "np.clip(v if unit else mu_law(v), -1, 1)", "v if unit else mu_law(v)", MODALITIES + "test_the_ends_stay_in_range", "tokenization/values.py"),
    Mutant("centres", "y if unit else inverse_mu_law(y)", "y", MODALITIES + "test_decoding_errs_by_at_most_half_a_bin", "tokenization/values.py"),
    Mutant("centres", "+ 0.5", "", MODALITIES + "test_decoding_errs_by_at_most_half_a_bin", "tokenization/values.py"),
    Mutant("ORDER", "Text: 0, Image: 1", "Text: 1, Image: 0", MODALITIES + "test_text_then_images_then_tensors_by_name", "tokenization/spaces.py"),
    Mutant("Vocabulary", "return self.N_text + BINS + 1", "return self.N_text + BINS", MODALITIES + "test_the_ids_follow_each_other", "tokenization/modalities.py"),
    # Tokens
    Mutant("mu_law", "np.log1p(MU * M)", "np.log1p(M)", MODALITIES + "test_mu_law", "tokenization/values.py"),
    Mutant("Box", "self.low >= -1 and self.high <= 1", "self.high <= 1", MODALITIES + "test_mu_law_is_for_values_that_are_not_declared_to_be_in_the_unit_interval", "tokenization/spaces.py"),
    Mutant("patches", "transpose(0, 1, 3, 5, 2, 4)", "transpose(0, 1, 3, 5, 4, 2)", MODALITIES + "test_patches_are_in_raster_order_with_their_intervals", "tokenization/values.py"),
    Mutant("intervals", "(c + PATCH) / w", "(c + PATCH) / h", MODALITIES + "test_patches_are_in_raster_order_with_their_intervals", "tokenization/values.py"),
    Mutant("_weave", "(TEXT, ACT)", "(ACT,)", MODALITIES + "test_text_then_images_then_tensors_by_name", "tokenization/modalities.py"),
    Mutant("_weave", "np.where(explored, 0, ", "np.where(~explored, 0, ", MODALITIES + "test_an_exploratory_action_is_not_learned", "tokenization/modalities.py"),
    Mutant("_weave", "read / np.maximum(acted, 1)", "read", MODALITIES + "test_text_then_images_then_tensors_by_name", "tokenization/modalities.py"),
    Mutant("_weave", "(TEXT.__ne__, ACT.__eq__)", "(OBS.__ne__, ACT.__eq__)", MODALITIES + "test_text_then_images_then_tensors_by_name", "tokenization/modalities.py"),
    Mutant("_run", "importance * of_rows", "of_rows", "model/test_loss.py::test_it_is_cross_entropy", "model/loss.py"),
    Mutant("_run", "error.mul_(importance)", "error", "model/test_loss.py::test_it_is_cross_entropy", "model/loss.py"),
    Mutant("GatoTraining", "m[T + 1] * P(theta)", "P(theta)", "formal/test_agent.py::test_one_step_is_the_gradient_of_the_masked_log_loss", "formal/agent.py"),
    Mutant("control", "worlds[0].tau if tau is None else tau", "tau or 0.0", "tasks/test_gato.py::test_a_world_says_the_temperature_unless_another_is_chosen", "inference/agent.py"),
    Mutant("_weave", ".argsort()", ".argsort()[::-1]", MODALITIES + "test_patches_are_in_raster_order_with_their_intervals", "tokenization/modalities.py"),
    Mutant("Pixels.__call__", "(image.astype(np.int16) - self.background) // 2", "(image - self.background) // 2", "worlds/test_adapter.py::test_a_background_becomes_0_of_the_pixels_that_a_model_sees", "worlds/conversion.py"),
    Mutant("LastFrames.step", "*self.frames[:2]]", "*self.frames[1:]]", "worlds/test_adapter.py::test_the_last_frames_are_channels_newest_first", "worlds/adapter.py"),
    Mutant("LastFrames.reset", "self.frames = [self._grey(observation)] * 3", "self.frames = [self._grey(observation), *self.frames[:2]] if self.frames else [self._grey(observation)] * 3", "worlds/test_adapter.py::test_the_last_frames_are_channels_newest_first", "worlds/adapter.py"),
    Mutant("action_ranges", "high + 1", "high", MODALITIES + "test_the_ids_follow_each_other", "tokenization/modalities.py"),
    # Episodes and rows
    Mutant("_Draw", "rng.random() < 0.5", "rng.random() < 0.9", EPISODES + "test_a_quarter_of_the_rows_has_a_prompt_of_another_episode", "data/episode_rows.py"),
    Mutant("_Draw", "self.members != number", "self.members >= 0", EPISODES + "test_a_quarter_of_the_rows_has_a_prompt_of_another_episode", "data/episode_rows.py"),
    Mutant("EpisodeRows", "np.random.default_rng([seed & MASK, ROW, n])", "np.random.default_rng([ROW, n])", EPISODES + "test_rows_follow_from_seed_and_number", "data/episode_rows.py"),
    Mutant("Episodes", "first, last)", "0, last - first)", EPISODES + "test_what_is_written_is_read", "data/episodes.py"),
    Mutant("_stored", "values.copy() if", "values if", EPISODES + "test_a_recorder_keeps_what_it_was_given", "data/recorder.py"),
    Mutant("_wrong", "np.float16 if rows.dtype == np.float16 else np.float32", "np.float32", EPISODES + "test_actions_may_stand_at_their_bounds_in_any_floats[-0.7-0.7-float16]", "data/episodes.py"),
    Mutant("_wrong", "kind(rows.min()), kind(rows.max())", "rows.min(), rows.max()", EPISODES + "test_actions_may_stand_at_their_bounds_in_any_floats[-0.7-0.7-float64]", "data/episodes.py"),
    Mutant("_wrong", "max(leaf.low, -M), min(leaf.high, M)", "leaf.low, leaf.high", EPISODES + "test_actions_may_stand_at_their_bounds_in_any_floats[None-None-float32]", "data/episodes.py"),
    Mutant("EpisodeRows", "count - after > LOCAL", "count > LOCAL", EPISODES + "test_rows_that_cannot_be", "data/episode_rows.py"),
    Mutant("EpisodeRows", "min(self.ell_max, LOCAL)", "self.ell_max", EPISODES + "test_rows_that_cannot_be", "data/episode_rows.py"),
    Mutant("Recorder", "if kind is None:", "if self._lines:", EPISODES + "test_nothing_is_left_of_what_fails", "data/recorder.py"),
    # Worlds
    Mutant("CartPole", "4 / 3", "1", WORLDS + "test_same_state_and_action_same_observation_and_reward", "worlds/cartpole.py"),
    Mutant("Pendulum", "DT * speed, speed", "DT * self.state[1], speed", WORLDS + "test_same_state_and_action_same_observation_and_reward", "worlds/pendulum.py"),
    Mutant("WALLS", "(3, 2)", "(2, 2)", WORLDS + "test_every_transition_of_taxi", "worlds/taxi.py"),
    Mutant("glyphs", "len({glyph.name for glyph in same}) == 1", "True", GLYPHS + "test_a_picture_with_two_names_is_left_out", "worlds/glyphs.py"),
    Mutant("record_world", "score >= limit and not lost", "not lost", RECORD + "test_only_good_episodes_are_kept", "worlds/record.py"),
    Mutant("returns", "suppress(ExpertLostError)", "suppress()", RECORD + "test_an_expert_that_is_lost_costs_its_episode_alone", "worlds/rollout.py"),
    Mutant("record_world", "if not length:", "if False:", RECORD + "test_an_expert_that_is_lost_costs_its_episode_alone", "worlds/record.py"),
    Mutant("_captions", ", ell_gen=model.hyper.ell_max)", ")", "cli/test_play.py::test_long_answers_are_read_to_their_end", "evaluation/tasks.py"),
    Mutant("_learned", "(ValueError, OSError)", "ValueError", "cli/test_play.py::test_a_run_without_its_episodes_acts_and_says_so", "evaluation/tasks.py"),
    Mutant("play", "every *= 2", "every *= 1", "cli/test_play.py::test_a_long_episode_keeps_few_frames", "cli/play.py"),
    Mutant("Config", "imported and train.optimizer", "train.optimizer", "runs/test_config.py::test_a_model_of_others_is_trained_with_small_steps", "runs/config.py"),
    Mutant("Config", "{} if resumed else defaults", "defaults", "runs/test_config.py::test_a_resumed_run_has_what_the_other_model_brought", "runs/config.py"),
    Mutant("Loop", 'state.step < steps and reason == "done"', "state.step < steps", "training/test_validation.py::test_a_run_that_had_stopped_early_stays_stopped", "training/loop.py"),
    Mutant("descending", "of = make(eta)", "_descends((of := make(eta)).trace())", "trace/test_record.py::test_the_trace_shown_is_the_one_that_descends", "trace/example.py"),
    Mutant("rollout", "outcome.reward, explored is not None)", "outcome.reward, explored is None)", RECORD + "test_random_actions_are_marked", "worlds/rollout.py"),
    Mutant("record_world", "random + keep * (expert - random)", "random + GOOD * (expert - random)", RECORD + "test_only_good_episodes_are_kept", "worlds/record.py"),
    Mutant("mistaken", "and id(thing) not in meant", "", ADAPTER + "test_there_may_be_no_other_object", "worlds/babyai.py"),
    Mutant("mistaken", "world.instrs = right", "pass", ADAPTER + "test_exploring_picks_up_an_object_that_is_not_meant", "worlds/babyai.py"),
    Mutant("_until_carried", "world.carrying is not thing", "True", ADAPTER + "test_exploring_picks_up_an_object_that_is_not_meant", "worlds/babyai.py"),
    Mutant("picture", "width // 2, height - 1", "width // 2, 0", ADAPTER + "test_a_view_is_the_picture_that_minigrid_draws", "worlds/minigrid_view.py"),
    Mutant("picture", "cells[i, j]", "cells[j, i]", ADAPTER + "test_a_view_is_the_picture_that_minigrid_draws", "worlds/minigrid_view.py"),
    Mutant("_drawn", 'kind != OBJECT_TO_IDX["unseen"]', "True", ADAPTER + "test_a_view_is_the_picture_that_minigrid_draws", "worlds/minigrid_view.py"),
    Mutant("PongExpert.__call__", "- OFFSET, min(", ", min(", ADAPTER + "test_the_expert_of_pong_rests_where_it_is_right", "worlds/pong.py"),
    Mutant("PongExpert.__call__", "bounced(ball_y + min(SOON, left) * (ball_y - y))", "ball_y + min(SOON, left) * (ball_y - y)", ADAPTER + "test_the_expert_of_pong_is_where_the_ball_arrives", "worlds/pong.py"),
    Mutant("PongExpert.__call__", "min(SOON, left)", "left", ADAPTER + "test_the_expert_of_pong_moves_along_with_the_ball", "worlds/pong.py"),
    Mutant("arrived", "pushed, push = push, 0", "push = 0", ADAPTER + "test_the_expert_of_pong_is_where_the_ball_arrives", "worlds/pong.py"),
    Mutant("Layer._with_mlp", "pick(X, picked), pick(attention, picked)", "X[: len(picked)], pick(attention, picked)", "model/test_picked.py::test_the_last_mlp_reads_what_the_loss_looks_at[EHyper-default]", "model/layers.py"),
    Mutant("DecoderOnly._through_layers", "if picked is not None and self.norms_over_tokens:", "if False:", "model/test_picked.py::test_the_last_mlp_reads_what_the_loss_looks_at[GatoHyper-batch_norm]", "model/decoder.py"),
    Mutant("Encoder.encode", "self._picked(tokens, where)", "None", "model/test_picked.py::test_the_last_mlp_reads_what_the_loss_looks_at[EHyper-default]", "model/architectures.py"),
    Mutant("Transformer._picked", "picked if len(picked) else picked.new_zeros(1)", "picked", "model/test_picked.py::test_where_nothing_is_asked_for_one_row_comes_back", "model/transformer.py"),
    Mutant("GeneralistAgent.mean_figures", "exp(sum(log(max(loss, SOLVED)) for loss in losses.values()) / len(losses))", "sum(losses.values()) / len(losses)", "tasks/test_gato.py::test_the_mean_of_losses_is_not_that_of_the_largest", "tasks/gato.py"),
    Mutant("GymnasiumWorld.explore", "rng.random() < 0.5", "False", ADAPTER + "test_exploring_picks_up_an_object_that_is_not_meant", "worlds/adapter.py"),
    Mutant("_around", "max(0, place - min(before, int(rng.integers(fit))))", "place", "data/test_episodes.py::test_rows_are_parts_of_episodes_from_every_timestep", "data/episode_rows.py"),
    Mutant("distinct", "not torch.equal(pixels[one][which], pixels)", "False", MIXED + "test_patches_that_are_alike_are_embedded_once", "model/mixed.py"),
    Mutant("Gato._patches", "F.embedding(which, E)", "E[which.flip(0)]", MIXED + "test_patches_that_are_alike_are_embedded_once", "model/gato.py"),
    Mutant("rollout", "0 if explored is None else left - 1", "left - 1", "worlds/test_worlds.py::test_a_stretch_may_end_early", "worlds/rollout.py"),
    Mutant("rollout", "next(explore, None)", "next(explore, action)", "worlds/test_worlds.py::test_a_stretch_may_end_early", "worlds/rollout.py"),
    Mutant("_around", "if before < 0:", "if False:", "data/test_episodes.py::test_a_timestep_that_has_no_room_after_a_prompt_is_read_without_one", "data/episode_rows.py"),
    Mutant("token_counts", "max(0, first - start) : max(0, end - start)", "max(0, first - start) :", "data/test_episodes.py::test_the_tokens_of_a_folder", "data/episode_rows.py"),
    Mutant("demonstrations", "members[good] if any(good) else members", "members", "tasks/test_gato.py::test_demonstrations_are_good_episodes", "evaluation/tasks.py"),
    Mutant("GymnasiumWorld.__init__", "chosen.pixels if isinstance(env, str) else Pixels()", "chosen.pixels", ADAPTER + "test_an_environment_that_is_made_already_is_not_changed", "worlds/adapter.py"),
    Mutant("rollout", "noise + stretch * (1 - noise)", "noise + (1 - noise)", "worlds/test_worlds.py::test_random_actions_last_a_stretch", "worlds/rollout.py"),
    Mutant("rollout", "rng.geometric(1 / stretch)", "1", "worlds/test_worlds.py::test_random_actions_last_a_stretch", "worlds/rollout.py"),
]  # fmt: skip

G, BINS, AGENT, RESNET = (f"formal/test_{file}.py::" for file in ("gato", "bins", "agent", "resnet"))
KINDS, PLACES, LOSS = (
    G + "test_every_kind_has_its_vectors",
    MIXED + "test_places_are_those_of_the_formal_index",
    MIXED + "test_the_loss_is_that_of_the_formal_training",
)
BATCH, FAST_PATH, ONE_PASS = (
    MIXED + "test_a_batch_of_sequences_says_what_each_says",
    MIXED + "test_text_values_and_actions_take_the_fast_path",
    MIXED + "test_an_observation_with_an_image_goes_on_in_the_cache",
)
GATO = [
    # Slips of public implementations of Gato
    Mutant("Bin", "min(floor(N_bins * (y + 1) / 2), N_bins - 1)", "floor(N_bins * (y + 1) / 2)", BINS + "test_decoding_errs_by_at_most_half_a_bin", "formal/bins.py"),
    Mutant("Bin", "min(max(y, -1.0), 1.0)", "y", BINS + "test_every_number_has_a_bin_with_and_without_mu_law", "formal/bins.py"),
    Mutant("mu_law_inverse", "expm1(abs(y) * log1p(mu * M)) / mu", "expm1(abs(y) * log1p(mu * M))", BINS + "test_mu_law_can_be_undone", "formal/bins.py"),
    Mutant("GatoControl", '[*s, *o, Token("sep", sep)]', "[*s, *o]", AGENT + "test_control_writes_observations_separators_and_actions", "formal/agent.py"),
    Mutant("GatoEmbedding", "else theta_e.W_e[:, s.x]", 'else theta_e.W_e[:, s.x] * (s.kappa != "sep")', KINDS, "formal/gato.py"),
    Mutant("Gato._line_2", "X = token_rows(self, self.hyper, ids)", "X = token_rows(self, self.hyper, ids) * (kind != 3)[:, None]", MIXED + "test_any_combination_of_departures", "model/gato.py"),
    Mutant("Index", "ceil(N * b)", "ceil(N * b) + 1", G + "test_an_index_is_in_its_interval", "formal/gato.py"),
    Mutant("Gato", "Mask: Masks = unidirectional", "Mask: Masks = lambda ell, l: torch.ones(ell, ell, dtype=torch.bool)", G + "test_a_token_changes_no_earlier_column_of_P_and_its_own", "formal/gato.py"),
    Mutant("GatoTraining", "ids[T + 1], T", "ids[T + 1], T + 1", AGENT + "test_one_step_is_the_gradient_of_the_masked_log_loss", "formal/agent.py"),
    Mutant("GatoEmbedding", "s.patch.A / sqrt(s.patch.n)", "s.patch.A", KINDS, "formal/gato.py"),
    Mutant("ResNet", "group_norm(Y, W.gamma2", "group_norm(Z, W.gamma2", RESNET + "test_the_block_is_a_residual_block_of_the_second_kind", "formal/resnet.py"),
    Mutant("GatoEmbedding", "theta_e.W_loc[:, s.p]", "theta_e.W_loc[:, 0]", KINDS, "formal/gato.py"),
    # Others
    Mutant("Bin_inverse", "(2 * (x - N_text) + 1) / N_bins - 1", "2 * (x - N_text) / N_bins - 1", BINS + "test_decoding_errs_by_at_most_half_a_bin", "formal/bins.py"),
    Mutant("mu_law", "a if v >= 0 else -a", "a", BINS + "test_mu_law_can_be_undone", "formal/bins.py"),
    Mutant("Index", "(T[0] + T[-1] + 1)", "(T[0] + T[0] + 1)", G + "test_published_places", "formal/gato.py"),
    Mutant("RandomIndex", "T[sample(torch.full((len(T),), 1 / len(T)), generator)]", "T[0]", G + "test_in_training_every_part_of_the_interval_comes_up", "formal/gato.py"),
    Mutant("at_random", "(i + 1 / 4) / N, (i + 3 / 4) / N", "i / N, (i + 2) / N", G + "test_a_drawn_place_is_the_index_of_use", "formal/gato.py"),
    Mutant("GatoEmbedding", 'e + theta_e.w_a if s.kappa == "act" else e', "e + theta_e.w_a", KINDS, "formal/gato.py"),
    Mutant("LOCAL", 'LOCAL = ("text", "obs", "img")', 'LOCAL = ("text", "obs", "img", "act")', KINDS, "formal/modality.py"),
    Mutant("GatoEmbedding", "Index(*s.patch.columns, theta_e.W_col", "Index(*s.patch.rows, theta_e.W_col", KINDS, "formal/gato.py"),
    Mutant("group_norm", "Z.reshape(G, -1)", "Z.reshape(1, -1)", RESNET + "test_group_norm_is_torch_s", "formal/resnet.py"),
    Mutant("ResNet", "Z + convolve(W.K_2", "convolve(W.K_2", RESNET + "test_the_block_is_a_residual_block_of_the_second_kind", "formal/resnet.py"),
    Mutant("loss_weight", "s.kappa in PREDICTED if s.m is None else s.m", "s.kappa in PREDICTED", G + "test_what_the_loss_looks_at", "formal/modality.py"),
    Mutant("GatoPrompt", "theta.ell_max - length(s)", "theta.ell_max", AGENT + "test_a_prompt_is_the_end_of_another_episode_or_any_part_of_it", "formal/agent.py"),
    Mutant("GatoTraining", "tasks[k] == tasks[n]", "True", AGENT + "test_prompts_come_from_the_same_task_and_by_their_share", "formal/agent.py"),
    Mutant("GatoInference", "s[-1].p + 1", "0", AGENT + "test_an_image_is_a_prompt_of_algorithm_14", "formal/agent.py"),
    Mutant("GatoControl", "P[list(A_i), -1] / P[list(A_i), -1].sum()", "P[: len(A_i), -1] / P[: len(A_i), -1].sum()", AGENT + "test_control_writes_observations_separators_and_actions", "formal/agent.py"),
    Mutant("token", "(s.kappa == \"img\") != (s.patch is not None)", "False", G + "test_a_token_that_cannot_be_embedded_is_refused", "formal/modality.py"),
    Mutant("ResNet.forward", "patches / sqrt(PATCH)", "patches", MIXED + "test_any_combination_of_departures", "model/gato.py"),
    Mutant("ResNet.forward", "Z = Z + F.conv2d(self._activated(Y, 2)", "Z = Z + F.conv2d(self._activated(Z, 2)", MIXED + "test_any_combination_of_departures", "model/gato.py"),
    Mutant("Gato._line_2", '* (kind <= LAST_LOCAL)[:, None]', "", MIXED + "test_any_combination_of_departures", "model/gato.py"),
    Mutant("Gato._line_2", '* (kind == ACT)[:, None]', "", MIXED + "test_any_combination_of_departures", "model/gato.py"),
    Mutant("Gato._patches", 'self.rows("W_col", cells[:, 1])', 'self.rows("W_col", cells[:, 0])', MIXED + "test_any_combination_of_departures", "model/gato.py"),
    Mutant("Gato.embed_one", "kind <= LAST_LOCAL", "kind < LAST_LOCAL - 1", FAST_PATH, "model/gato.py"),
    Mutant("Gato.embed_one", "elif kind == ACT:", "elif kind == ACT + 1:", FAST_PATH, "model/gato.py"),
    Mutant("Gato.is_one_token", "or len(ids.patches)", "", FAST_PATH, "model/gato.py"),
    Mutant("MixedBatch.patch_number", "& self.token_mask()", "", MIXED + "test_invariances", "model/mixed.py"),
    Mutant("MixedBatch.narrow", "numbers[row][t] for row in range(B)", "row for row in range(B)", ONE_PASS, "model/mixed.py"),
    Mutant("_parts", "ends[..., 1].ceil().long() - 1", "ends[..., 1].ceil().long()", PLACES, "model/mixed.py"),
    Mutant("middle_cells", "(first + last + 1) // 2", "(first + last) // 2", PLACES, "model/mixed.py"),
    Mutant("random_cells", "last - first + 1", "last - first", PLACES, "model/mixed.py"),
    Mutant("MixedBatch.next_weights", "self.weights()[:, 1:]", "self.weights()[:, :-1]", LOSS, "model/mixed.py"),
    Mutant("next_mixed_tokens", "batch.ids[:, 1:]", "batch.ids[:, :-1]", LOSS, "tasks/predictions.py"),
    Mutant("_check_patches", "not (low >= -1 and high <= 1)", "low < -1 or high > 1", MIXED + "test_a_batch_that_cannot_be_embedded_is_refused", "model/mixed.py"),
    Mutant("unbiased", 'getattr(path[0], "name", "") in DEPTHS', "len(path) > 1", MIXED + "test_any_combination_of_departures", "formal/bias.py"),
    Mutant("_smooth", "weights / weights.norm(dim=1, keepdim=True) @ drawn", "weights @ drawn", MIXED + "test_values_that_are_near_start_with_vectors_that_are_near", "model/parameters.py"),
    Mutant("initialise", "slice(hyper.N_V - 1 - BINS, hyper.N_V - 1)", "slice(hyper.N_V - BINS, hyper.N_V)", MIXED + "test_values_that_are_near_start_with_vectors_that_are_near", "model/parameters.py"),
]  # fmt: skip

CHECK, OBJECTS, LIBRARY = "verify/test_module.py::", "data/test_objects.py::", "training/test_train.py::"
RIGHT = CHECK + "test_a_right_module_keeps_every_law_and_equals_the_formal_algorithm[D]"

AS_A_LIBRARY = [
    Mutant("causality", "slice(t + 1, None)", "slice(t + 2, None)", CHECK + "test_a_broken_law_is_named[next-token-leaks]", "verify/module_laws.py"),
    Mutant("context", "range(s if subject.causal else max(0, s - 1)", "range(s if subject.causal else s", CHECK + "test_an_encoder_that_is_told_its_padding", "verify/module_laws.py"),
    Mutant("distributions", "<= 1:", "<= 0:", CHECK + "test_a_broken_law_is_named[second-softmax]", "verify/module_laws.py"),
    Mutant("_slope", "sign * STEP * direction", "STEP * direction", RIGHT, "verify/module_laws.py"),
    Mutant("_off", "masked_fill_(where, 0)", "masked_fill_(~where, 0)", CHECK + "test_what_laws_cannot_see_the_formal_algorithm_shows[no-scale]", "verify/components.py"),
    Mutant("_one_place", "len(owners) > 1", "len(owners) > 9", CHECK + "test_self_and_cross_attention_that_share_weights", "verify/components.py"),
    Mutant("lines", "name_of_class(values[-1])", "str(values[-1])", OBJECTS + "test_a_dataset_names_its_classes", "data/objects.py"),
    Mutant("Texts", "previous.replace(path)", "previous.unlink()", LIBRARY + "test_texts_that_cannot_be_written_leave_those_before", "runs/texts.py"),
    Mutant("Texts", "ours is None or line is None or ours != line", "ours is not None and line is not None and ours != line", LIBRARY + "test_a_run_resumes_with_the_same_texts_and_only_with_them", "runs/texts.py"),
    Mutant("Config", "self.train.fine_tuning != 1 and", "False and", "runs/test_config.py::test_a_rate_for_fine_tuning_needs_a_run_to_start_from", "runs/config.py"),
    Mutant("summary", "0 < written < read", "0 < written", "cli/test_train.py::test_the_last_lines_say_how_many_rows_were_decoded", "cli/train.py"),
    Mutant("last_sample", "max(ALWAYS, BUDGET / 2 * trained_tokens)", "max(ALWAYS, trained_tokens)", "training/test_validation.py::test_the_last_validation_costs_at_most_a_twentieth_of_the_run", "training/validation.py"),
    Mutant("Loop._measure_best", "self.autocast, which)", "self.autocast)", "training/test_validation.py::test_a_long_validation_set_is_not_read_to_its_end", "training/loop.py"),
    Mutant("usable_cores", "int(quota) // int(period)", "int(quota)", "training/test_machine.py::test_a_process_that_may_use_few_cores_has_few_threads", "training/machine.py"),
    Mutant("_records", "(i + 1, records[i])", "(i, records[i])", "evaluation/test_measure.py::test_predictions_have_the_original_text_and_its_place", "evaluation/measure.py"),
    Mutant("flushed_denormals", "torch.set_flush_denormal(True)", "pass", LIBRARY + "test_torch_is_left_as_it_was", "training/machine.py"),
    Mutant("flushed_denormals", "torch.set_flush_denormal(before)", "pass", LIBRARY + "test_torch_is_left_as_it_was", "training/machine.py"),
    Mutant("_run", "torch.set_num_threads(threads)", "pass", LIBRARY + "test_torch_is_left_as_it_was", "training/train.py"),
]  # fmt: skip

GATO_TASK, PLAYING = "tasks/test_gato.py::", "cli/test_play.py::"
ANSWERS, ENDED, ONE_BY_ONE = (
    f"inference/test_text_only.py::test_{name}"
    for name in (
        "answers_are_the_most_probable_text_up_to_eos",
        "nothing_is_written_after_eos",
        "text_is_read_part_by_part_as_in_one_pass",
    )
)

GATO_PRODUCT = [
    # Rows and batches
    Mutant("EpisodePlan", "<= self.tokens", "<= 2 * self.tokens", GATO_TASK + "test_a_step_has_as_many_rows_as_fit_its_tokens", "data/episode_batches.py"),
    Mutant("EpisodePlan", "rows < self.rows", "rows <= self.rows", GATO_TASK + "test_a_step_has_as_many_rows_as_fit_its_tokens", "data/episode_batches.py"),
    Mutant("EpisodePlan", "stop = position.batch", "stop = 0", GATO_TASK + "test_batches_continue_from_any_position", "data/episode_batches.py"),
    Mutant("numbered_rows", "of_rows.append(weight / mean)", "of_rows.append(weight)", GATO_TASK + "test_weights_are_shares_of_tokens", "data/episode_batches.py"),
    Mutant("NumberedRows", "self.numbers[row.task] if self.numbers else row.task", "0", GATO_TASK + "test_figures_are_of_each_task", "data/episode_batches.py"),
    Mutant("digest", "(META, INDEX, *sorted({episode.file for episode in task.episodes}))", "(META, INDEX)", GATO_TASK + "test_the_digest_sees_every_file", "data/episode_batches.py"),
    # The task
    Mutant("GeneralistAgent", "if rows is None:", "if rows is not None:", GATO_TASK + "test_patches_move_in_training_alone", "tasks/gato.py"),
    Mutant("GeneralistAgent", "weights[weights > 0], task[weights > 0]", "weights[weights > 0], of_tokens[batch.next_weights() > 0]", GATO_TASK + "test_figures_are_of_each_task", "tasks/gato.py"),
    # Acting and answering
    Mutant("Memory", "have + len(more) > self.room", "have + len(more) > 10 * self.room", GATO_TASK + "test_beyond_ell_max_a_row_starts_over_with_its_last_timesteps", "inference/agent.py"),
    Mutant("Memory", "kept.insert(0, step)", "kept.append(step)", GATO_TASK + "test_beyond_ell_max_a_row_starts_over_with_its_last_timesteps", "inference/agent.py"),
    Mutant("control", "[:, allowed.start : allowed.stop]", "[:, allowed.start : allowed.stop + 1]", GATO_TASK + "test_actions_stay_in_their_range", "inference/agent.py"),
    Mutant("Memory", "self.room // 2", "self.room", GATO_TASK + "test_beyond_ell_max_a_row_starts_over_with_its_last_timesteps", "inference/agent.py"),
    Mutant("Memory", "self.unread[row] = []", "pass", GATO_TASK + "test_beyond_ell_max_a_row_starts_over_with_its_last_timesteps", "inference/agent.py"),
    Mutant("control", "scores[row] += outcome.reward", "scores[row] = outcome.reward", GATO_TASK + "test_a_return_is_the_sum_of_all_rewards", "inference/agent.py"),
    Mutant("control", "generators[row] for row in active", "generators[i] for i in range(len(active))", GATO_TASK + "test_a_row_draws_the_same_whoever_else_is_active", "inference/agent.py"),
    Mutant("_answered", "(index + 1).clamp", "index.clamp", ANSWERS + "[1]", "inference/agent.py"),
    Mutant("_answered", "logits[:, :N_text]", "logits", ANSWERS + "[1]", "inference/agent.py"),
    Mutant("_answered", "ended[row] or token == eos", "token == eos", ENDED, "inference/agent.py"),
    Mutant("TextOnly.decode", "start + torch.arange", "torch.arange", ONE_BY_ONE, "inference/text_only.py"),
    Mutant("TextOnly._text", "self.N_text :", "self.N_text + 1 :", ONE_BY_ONE, "inference/text_only.py"),
    Mutant("TextOnly._batch", "tuple(counts)", "(ids.shape[1],) * len(ids)", ONE_BY_ONE, "inference/text_only.py"),
    Mutant("TextOnly.window", "% min(LOCAL, self.hyper.N_loc)", "% min(LOCAL, self.hyper.N_loc - 1)", "inference/test_text_only.py::test_a_window_is_one_pass", "inference/text_only.py"),
    # Figures
    Mutant("_returns", "CONFIDENCE * stdev(shares) / sqrt(count)", "CONFIDENCE * stdev(shares)", GATO_TASK + "test_evaluation", "evaluation/tasks.py"),
    Mutant("prose_rows", "width - 1)]", "width)]", GATO_TASK + "test_perplexity_does_not_depend_on_rows", "evaluation/tasks.py"),
    Mutant("_captions", "guess == truth for", "guess != truth for", GATO_TASK + "test_exact_match_counts_captions", "evaluation/tasks.py"),
    Mutant("play", "len(pictures) < most", "True", PLAYING + "test_pictures", "cli/play.py"),
]  # fmt: skip

INTEROP_NAMES, GRAPHS, HEAD = (
    "interop/test_names.py::",
    "interop/test_onnx.py::test_graphs_compute_what_the_engine_computes",
    "formal/test_head.py::",
)
PUT_TOGETHER = INTEROP_NAMES + "test_what_is_taken_apart_is_put_together_again"
INTEROP = [
    # What other architectures have
    Mutant("head", "theta.W_f @ X + theta.b_f[:, None]", "theta.W_f @ X", HEAD + "test_the_papers_head_is_lines_10_and_11", "formal/head.py"),
    Mutant("tanh_head", "torch.tanh(", "torch.sigmoid(", HEAD + "test_berts_pooler_has_tanh_and_no_norm", "formal/head.py"),
    Mutant("split_sinusoids", "[W_p[0::2], W_p[1::2]]", "[W_p[1::2], W_p[0::2]]", "formal/test_positions.py::test_marians_sinusoids_have_all_sines_before_all_cosines", "formal/positions.py"),
    Mutant("ENCODER_HEADS", "EncoderHead(tanh, tanh_head)", "EncoderHead(projected, tanh_head)", "model/test_units.py::test_every_departure_departs", "model/head.py"),
    Mutant("_encoder_decoder", '{"unembed": biased_unembed} if', '{} if', "model/test_units.py::test_every_departure_departs", "model/counterpart.py"),
    # Names
    Mutant("halves", "(heads, -1, 2)).transpose(1, 2)", "(heads, 2, -1)).transpose(1, 2)", INTEROP_NAMES + "test_rotary_pairs", "interop/names.py"),
    Mutant("_by_head_join", "(hyper.H, 3, -1)).transpose(0, 1)", "(3, hyper.H, -1)).transpose(0, 1)", INTEROP_NAMES + "test_q_k_and_v_of_one_head_above_those_of_the_next", "interop/names.py"),
    Mutant("part_rows", "[shape[0]] if count == 1", "[shape[-1]] if count == 1", PUT_TOGETHER, "interop/names.py"),
    Mutant("differences", '(*TRAINING, "special")', '(*TRAINING, "special", "norm_first")', "interop/test_export.py::test_what_transformers_does_not_know", "interop/fitting.py"),
    # Tokens
    Mutant("Tokenizer", "self._special.context_bos or not context", "True", "data/test_store.py::test_z_may_have_no_bos_where_x_has_one", "tokenization/tokenizer.py"),
    Mutant("special_tokens", "bos[0] if bos else None, eos[0]", "config.token_ids('bos_token_id')[0], eos[0]", "interop/test_vocabulary.py::test_of_pairs_x_begins_with_what_config_says_and_z_with_nothing", "interop/vocabulary.py"),
    # Graphs
    Mutant("seen", "distance >= 0", "distance >= -1", GRAPHS + "[DHyper-eps=0.1]", "interop/onnx_modules.py"),
    Mutant("attended", "torch.cat([past[0], k], dim=2)", "torch.cat([k, past[0]], dim=2)", GRAPHS + "[DHyper-eps=0.1]", "interop/onnx_modules.py"),
    Mutant("_pooled", "(X * inside).sum(dim=1)", "X.sum(dim=1)", GRAPHS + "[ClassifierHyper-pooling=mean]", "interop/onnx_modules.py"),
]  # fmt: skip

CHECKPOINTS = [  # checkpoints, and texts in passes
    Mutant("_inside", 'or name in ("", "..")', 'or name == ".."', "interop/test_import.py::test_wrong_and_hostile_files", "interop/weights.py"),
    Mutant("embed", "places[tuple(row)] for row in rows", "places[row] for row in distinct", "inference/test_one_pass.py::test_many_rows_are_embedded_as_few_are", "inference/one_pass.py"),
    Mutant("passes", "tokens >= OF_ONE_LENGTH and ", "False and ", "inference/test_one_pass.py::test_passes_have_every_row_once_and_one_length_where_there_are_many", "inference/one_pass.py"),
    Mutant("_not_embedded", "return output.clone()", "return output", "verify/test_module.py::test_a_broken_law_is_named[separator-not-embedded]", "verify/module_laws.py"),
]  # fmt: skip

LEAVES_THE_OLD = "training/test_overwrite.py::test_a_run_that_ends_before_its_first_checkpoint_leaves_the_old_one"
LOST = "training/test_overwrite.py::test_a_run_that_lost_its_last_checkpoint_is_not_started_over"
DAMAGED_TENSORS = "runs/test_damaged.py::test_every_tensor_of_a_model_is_checked"

HOSTILE = [
    # One process at a time
    Mutant("_lock", "fcntl.LOCK_EX | fcntl.LOCK_NB", "fcntl.LOCK_NB", "runs/test_lock.py::test_another_process_is_named_and_a_killed_one_leaves_no_lock", "runs/lock.py"),
    Mutant("_acquired", "_is_at(descriptor, path)", "True", "runs/test_lock.py::test_a_file_that_lost_its_name_is_no_lock", "runs/lock.py"),
    # The old run until the new one has a checkpoint
    Mutant("_train", "out / swap.NEW if replaces else out", "out", LEAVES_THE_OLD, "training/start.py"),
    Mutant("train", "discard(out / swap.NEW)", "discard(out / swap.READY)", LEAVES_THE_OLD, "training/start.py"),
    Mutant("settle", "(run / READY).is_dir()", "(run / READY).is_file()", "training/test_overwrite.py::test_killed_at_any_moment_there_is_one_of_the_two[1]", "runs/swap.py"),
    Mutant("Loop._save", "self.out != self.final", "self.out == self.final", "training/test_overwrite.py::test_the_first_checkpoint_takes_its_place", "training/loop.py"),
    # Nothing that was lost is started over, and a refusal changes nothing
    Mutant("_require_nothing", "found or done > first", "done > first", LOST + "[best]", "training/start.py"),
    Mutant("_require_nothing", "found or done > first", "found", LOST + "[metrics.jsonl]", "training/start.py"),
    Mutant("Loop._save_first", "not self.saved", "self.saved", "training/test_overwrite.py::test_a_kill_between_the_first_last_checkpoint_and_the_best[0.25]", "training/loop.py"),
    # Links
    Mutant("refuse_links_of_runs", "part.is_symlink() and", "part.is_dir() and", "cli/test_links.py::test_a_file_of_the_users_may_be_a_link_but_not_one_in_a_run", "atomic.py"),
    Mutant("refuse_links_of_runs", "any(_is_run(folder) for folder in part.parents)", "True", "test_atomic.py::test_a_symbolic_link_stays_one", "atomic.py"),
    Mutant("Metrics.write", "os.O_CREAT | os.O_NOFOLLOW", "os.O_CREAT", "cli/test_links.py::test_metrics_are_not_appended_to_a_link", "training/metrics.py"),
    Mutant("require_no_links", "path.is_symlink()", "path.is_dir()", "cli/test_links.py::test_training_refuses_links[True-config.toml]", "runs/swap.py"),
    # What a checkpoint says, and what it has
    Mutant("count", "0 <= value", "-LARGEST <= value", "runs/test_damaged.py::test_every_fact_of_a_model_is_checked[step=-1]", "runs/schema.py"),
    Mutant("record", "elif closed", "elif not closed", "runs/test_damaged.py::test_every_part_of_the_state_is_checked[state.rng=1]", "runs/schema.py"),
    Mutant("_hyper", "type(hyper) is not expected", "not isinstance(hyper, Hyper)", "runs/test_damaged.py::test_every_fact_of_a_model_is_checked[task=mlm]", "runs/metadata.py"),
    Mutant("compare", "found[name] != kind", "found[name].dtype != kind.dtype", "runs/test_damaged.py::test_every_tensor_is_checked_before_training_continues[broadcast]", "runs/tensors.py"),
    Mutant("compare", "found[name] != kind", "found[name].shape != kind.shape", DAMAGED_TENSORS + "[half]", "runs/tensors.py"),
    Mutant("require_finite", "math.isfinite(least) and math.isfinite(most)", "math.isfinite(most)", DAMAGED_TENSORS + "[infinite]", "runs/tensors.py"),
    Mutant("optimiser_kinds", "_STATE[type(optimiser)]", "((), ())", "runs/test_format.py::test_an_earlier_run_resumes", "runs/tensors.py"),
    Mutant("_unknown", "torch.nan", "0.0", "runs/test_sharded.py::test_rows_that_no_shard_has", "runs/checkpoints.py"),
    Mutant("_is_deep", "return True", "return False", "runs/test_damaged.py::test_deep_metadata_is_refused", "reading.py"),
    Mutant("_require_same", "ours[name] != value", "ours[name] is None", "runs/test_damaged.py::test_every_part_of_the_state_is_checked[hyper.dropout=0.5]", "training/start.py"),
    # The tokenizer
    Mutant("read_core", "core.no_truncation()", "core.no_padding()", "runs/test_tokenizer.py::test_what_is_not_used_changes_no_answer[truncation]", "tokenization/tokenizer.py"),
    Mutant("check_unknown", "core.token_to_id(unknown) is None", "core.token_to_id(unknown) == 0", "runs/test_tokenizer.py::test_a_vocabulary_that_does_not_fit", "tokenization/tokenizer.py"),
    Mutant("_step", "isinstance(values, dict)", "not isinstance(values, int)", "training/test_metrics.py::test_lines_that_are_none", "training/metrics.py"),
]  # fmt: skip

OUTSIDE, OPTIONS, STORE, TABLES, MEMORY = (
    "cli/test_outside.py::",
    "cli/test_options.py::",
    "data/test_store.py::",
    "data/test_tables.py::",
    "training/test_enough_memory.py::",
)
INPUT_OUTPUT = [
    # Token files of strangers
    Mutant("_read_meta", "value in DTYPES", "isinstance(value, str)", STORE + "test_a_strangers_token_files", "data/store.py"),
    Mutant("_read_meta", "value in STREAMS", "isinstance(value, list)", STORE + "test_a_strangers_token_files", "data/store.py"),
    Mutant("_ascends", "block[:-1] <= block[1:]", "block[1:] <= block[1:]", STORE + "test_bounds_stay_in_the_file", "data/store.py"),
    Mutant("load", "classes.max() < len(meta.labels)", "classes.max() <= len(meta.labels)", STORE + "test_classes_are_those_of_the_labels", "data/store.py"),
    Mutant("Store.check_ids", "ids.max() >= self.N_V", "ids.max() > self.N_V", STORE + "test_tokens_that_the_vocabulary_lacks_are_refused", "data/store.py"),
    Mutant("open_regular", "if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):", "if False:", STORE + "test_a_pipe_in_a_cache_is_no_file", "data/files.py"),
    # Tables, pipes, bombs
    Mutant("check_width", "len(cells) != width", "len(cells) < width", TABLES + "test_ragged_rows_are_refused", "data/tables.py"),
    Mutant("check_header", "name in names[:i]", "False", TABLES + "test_two_columns_of_one_name_are_refused", "data/tables.py"),
    Mutant("check_rereadable", "stat.S_ISFIFO(mode)", "stat.S_ISBLK(mode)", "data/test_sources.py::test_what_can_be_read_once_only_is_no_data", "data/files.py"),
    Mutant("lines", "length += len(first)", "length = len(first)", "data/test_sources.py::test_a_small_file_does_not_fill_the_memory", "data/files.py"),
    # What is printed
    Mutant("PlainConsole.render", "segment.control is None and OBEYED.search(segment.text)", "False", OUTSIDE + "test_a_console_shows_what_others_obey", "terminal.py"),
    Mutant("marked", "escape(shown(text))", "shown(text)", OUTSIDE + "test_what_is_marked_stands_between_markup", "terminal.py"),
    Mutant("console", "markup=False", "markup=True", OUTSIDE + "test_a_console_shows_what_others_obey", "terminal.py"),
    Mutant("embedded", "UNSAFE.sub(", "MARK.sub(", OUTSIDE + "test_no_token_breaks_the_page", "trace/page.py"),
    Mutant("open_streams", 'errors="backslashreplace"', 'errors="strict"', OUTSIDE + "test_other_encodings_get_what_they_have", "cli/streams.py"),
    Mutant("signals", "state.interrupted = True", "state.interrupted = False", OUTSIDE + "test_ctrl_c_that_a_library_hides", "cli/streams.py"),
    Mutant("message", "short(line, CHARACTERS // len(lines))", "line", OUTSIDE + "test_messages_have_an_end", "cli/failures.py"),
    Mutant("signals", "dict.fromkeys(STOPPING, stop)", "dict.fromkeys(STOPPING, interrupt)", OUTSIDE + "test_sigterm_while_tokenising_leaves_nothing", "cli/streams.py"),
    # Numbers
    Mutant("check_values", "elif interval is not None and value is not None:", "elif interval is None and value is not None:", OPTIONS + "test_numbers_of_the_command_line", "cli/bounds.py"),
    Mutant("_check_bounds", "and value is not None", "and value is None", OPTIONS + "test_numbers_of_training", "runs/config.py"),
    Mutant("device_named", "kind not in DEVICES", "kind in ()", "tasks/test_examples.py::test_bad_devices_are_named", "runs/models.py"),
    Mutant("check_memory", "sum(parts.values()) <= there", "min(parts.values()) <= there", MEMORY + "test_what_a_machine_does_not_have", "training/memory.py"),
    Mutant("_run", "if not existed and", "if existed and", MEMORY + "test_memory_that_runs_out_later", "training/train.py"),
    Mutant("_uses", "min(hyper.shared, ", "min(1, ", MEMORY + "test_many_layers_are_counted_at_once", "hyper/cost.py"),
]  # fmt: skip

FAULTS = [
    Mutant("numbers", "values.isnan().any()", "values.isinf().any()", "inference/test_one_pass.py::test_weights_that_are_too_large_to_compute_with_give_no_answer", "inference/results.py"),
    Mutant("number", "isnan(value)", "value == 0", "inference/test_one_pass.py::test_weights_that_are_too_large_to_compute_with_give_no_answer", "inference/results.py"),
    Mutant("_is_score", "abs(value) < LARGEST", "abs(value) != LARGEST", "data/test_episodes.py::test_a_broken_folder_is_refused_when_it_is_opened", "data/episodes.py"),
]  # fmt: skip

MUTANTS = (
    [replace(mutant, file=mutant.file or "formal") for mutant in FORMAL]
    + ENGINE
    + TRAINER
    + DECODERS
    + GATO
    + GATO_DATA
    + GATO_PRODUCT
    + AS_A_LIBRARY
    + INTEROP
    + CHECKPOINTS
    + HOSTILE
    + INPUT_OUTPUT
    + FAULTS
)


PARTS = 8


def test_there_are_enough_mutants_and_none_twice() -> None:
    assert len(MUTANTS) == len({mutant.key for mutant in MUTANTS})
    assert len(MUTANTS) >= 235 and min(len(FORMAL), len(ENGINE), len(DECODERS) + 10) >= 90 and len(GATO) >= 30


@pytest.mark.parametrize("part", range(PARTS))
def test_every_mutant_is_killed(part: int, record_property: Callable[[str, object], None]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutation", str(part), str(PARTS)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert outcomes.pop("control") == "survived", "the tests must pass on the package as it is"
    alive = {mutant: outcome for mutant, outcome in outcomes.items() if outcome != "killed"}
    record_property("summary", f"mutants: {len(outcomes) - len(alive)} killed / {len(outcomes)}")
    assert len(outcomes) == len(part_of(MUTANTS, part, PARTS))
    assert not alive, "\n".join(f"{mutant}\n    {outcome}" for mutant, outcome in alive.items())
