"""Why every line is there: a sentence for each, for whoever meets the algorithm for the first time. No torch."""

from transalg.trace.source import Algorithm, Line

LENGTH = "The lines below count over the tokens, so they need to know how many there are."
EMBED = "A network computes with vectors: one for what the token is, plus one for where it stands, or the order would be lost."
COLUMNS = "Side by side, the vectors form one matrix, and one matrix product then works on all tokens at once."
LAYERS = "One layer moves information one step; stacked layers can use what earlier layers have worked out."
LAYERS_END = "The next layer reads the X that this one leaves; all layers work on the same running sum."
BOTH_WAYS = "Here tokens learn from each other, before and behind alike, for the text is known in full; adding to X keeps what X knew."
CAUSAL = "Here tokens learn from each other, but only from the past: seeing the next token would make predicting it worthless."
MLP_WHY = "After tokens have exchanged information, each digests its own: the non-linearity computes what no attention can."
POST_NORM = "Each sum makes the vectors longer; without rescaling, deep stacks would drown in large numbers and train badly."
PRE_NORM = (
    "The sub-layer gets inputs of one scale whatever X has grown to; X itself stays untouched, so gradients flow straight through it."
)
FINAL_NORM = "X has grown with every layer; before it is compared with the vocabulary it gets one scale again."
UNEMBED = "Each column becomes a score for every token of the vocabulary, and softmax makes scores probabilities that sum to 1."
EPOCHS = "One pass changes θ too little; the same data teach more when they are seen again."
DATA = "A step after every sequence, not after all of them, is what makes the descent stochastic and cheap."
DATA_END = "The next sequence starts from the θ that this one has improved."
EPOCHS_END = "The next pass starts from the θ of this one."
P_OF_THETA = "P is a function of θ, not yet numbers, for line {} differentiates through it."
STEP = "The gradient points where the loss grows fastest, so a small step against it lowers the loss; η says how small."
TRAINED = "What training makes is a better θ and nothing else; the algorithm that uses it stays the same."
QUERY = "A token asks a question: its query says what it looks for in the others."
KEYS = "Every token offers a key, which says what it can answer, in the same space as the queries so that they can be compared."
VALUES = "What a token passes on need not be what it is found by, so values have a matrix of their own."
TEMPER = "τ below 1 sharpens p towards its favourite, above 1 flattens it; sampling, not taking the best, lets the text vary."
NEXT = "Only the last column speaks of the token that is still to come; the others predict tokens that are there already."

WHY: dict[str, tuple[str, ...]] = {
    "token_embedding": ("A token ID is only a name; its column of W_e is learned, so that tokens used alike get vectors alike.",),
    "positional_embedding": ("Attention by itself cannot tell the order of its inputs; a learned vector for each position tells it.",),
    "single_query_attention": (
        QUERY,
        KEYS,
        VALUES,
        "A large product of query and key is a good match; softmax turns matches into shares that sum to 1, and √d_attn keeps it from "
        "saturating.",
        "The token takes from each other token in proportion to its share, so what matters most weighs most.",
    ),
    "Attention": (
        QUERY,
        KEYS,
        VALUES,
        "The product of a key and a query is large where they point the same way: S says how well each token answers each other one.",
        "What a token may not see gets the score −∞, because softmax turns exactly that into the weight 0.",
        "Scores become shares that sum to 1 in each column, and each token takes that mixture of values; √d_attn keeps scores moderate.",
    ),
    "MHAttention": (
        "One head can look for one thing at a time; several heads look for several things in the same layer.",
        "Stacking the heads' answers keeps them apart, so that the next line can weigh each of them.",
        "The heads' answers are mixed and brought to the size that the caller can add to X.",
    ),
    "layer_norm": (
        "The mean is what all components share; taking it away leaves what distinguishes them.",
        "The variance says how large the components are, which is what the next line divides out.",
        "Inputs of mean 0 and variance 1 keep layers in the range where they learn well; γ and β let the network choose another range.",
    ),
    "unembedding": ("A row of W_u for every token scores how well it fits e, and softmax makes the scores a probability distribution.",),
    "EDTransformer": (
        "The encoder's lines count over the tokens of z, so they need to know how many there are.",
        EMBED,
        COLUMNS,
        "The encoder reads z in several rounds; each layer refines what the layers before have understood.",
        "Every token of z may look at all of z, for the source is known in full; adding to Z keeps what Z knew.",
        POST_NORM,
        MLP_WHY,
        POST_NORM,
        "The next layer reads the Z that this one leaves; after the last, Z is what the decoder knows of the source.",
        "The decoder's lines count over the tokens of x, which may be more or fewer than those of z.",
        "The same W_e and W_p embed x, so a token means the same on both sides.",
        COLUMNS,
        "The decoder, too, works in rounds: each layer looks at what is written so far and at the source.",
        "A token of x learns from the tokens written before it, and from none after, for those are to be predicted.",
        POST_NORM,
        "Here the translation meets its source: queries come from x, keys and values from z, and nothing of z is hidden.",
        POST_NORM,
        MLP_WHY,
        POST_NORM,
        LAYERS_END,
        UNEMBED,
    ),
    "ETransformer": (
        LENGTH,
        EMBED,
        COLUMNS,
        LAYERS,
        BOTH_WAYS,
        POST_NORM,
        MLP_WHY,
        POST_NORM,
        LAYERS_END,
        "One more non-linear map suits the vectors to guessing tokens, so that the layers need not serve that end themselves.",
        FINAL_NORM,
        "Each column becomes a distribution over the vocabulary: at a masked position, the model's guess of what stood there.",
    ),
    "DTransformer": (
        LENGTH,
        EMBED,
        COLUMNS,
        LAYERS,
        PRE_NORM,
        CAUSAL,
        PRE_NORM,
        MLP_WHY,
        LAYERS_END,
        FINAL_NORM,
        "Column t becomes a distribution over the token after x[t]; as no column sees its future, all are trained at once.",
    ),
    "EDTraining": (
        EPOCHS,
        DATA,
        "The loss has a term for every token of x but the first, so the length is needed.",
        P_OF_THETA.format(6),
        "−log P is small where the model gave the true next token much probability: learning means raising it, for all tokens together.",
        STEP,
        DATA_END,
        EPOCHS_END,
        TRAINED,
    ),
    "ETraining": (
        EPOCHS,
        DATA,
        "Every position is a candidate for a mask, so the length is needed.",
        "Whether a token is masked is decided for each position by itself.",
        "Hiding tokens makes exercises out of plain text; new random masks in each pass make new exercises of the same text.",
        "x̃ is complete once every position has been decided.",
        "Only the hidden tokens are worth guessing; the others can be read off the input.",
        P_OF_THETA.format(10),
        "−log P is small where the model gave the hidden token much probability, from what it sees on both sides.",
        STEP,
        DATA_END,
        EPOCHS_END,
        TRAINED,
    ),
    "DTraining": (
        EPOCHS,
        DATA,
        "The loss has a term for every token but the first, so the length is needed.",
        P_OF_THETA.format(6),
        "−log P is small where the model gave the true next token much probability; one sequence is ℓ−1 exercises at once.",
        STEP,
        DATA_END,
        EPOCHS_END,
        TRAINED,
    ),
    "DInference": (
        "Where the prompt ends has to be remembered, for the last line returns only what comes after it.",
        "A model predicts one token at a time, so a text of ℓ_gen tokens takes ℓ_gen rounds.",
        "The token that was just added may change everything, so the model reads the longer x again.",
        NEXT,
        TEMPER,
        "The new token becomes part of the prompt: that is how a next-token predictor writes a text.",
        "The next round predicts from an x that is one token longer.",
        "The reader has the prompt already; the answer is what the model has added.",
    ),
    "EDInference": (
        "The decoder needs something to predict from, and bos_token is what every x began with in training.",
        "The loop's test needs a y before there is one; anything but eos_token will do.",
        "Nobody knows how long the answer will be, so the model itself says when it ends, by eos_token.",
        "z says what to translate, x̂ how far the translation is; both decide what comes next.",
        NEXT,
        TEMPER,
        "The new token becomes input of the next round, so that the sentence stays of one piece.",
        "The next round predicts from an x̂ that is one token longer.",
        "From bos_token to eos_token: what the model says that z means.",
    ),
    # Variants
    "EClassifier": (
        LENGTH,
        EMBED,
        COLUMNS,
        LAYERS,
        BOTH_WAYS,
        POST_NORM,
        MLP_WHY,
        POST_NORM,
        LAYERS_END,
        "One more non-linear map suits the vectors to telling classes apart.",
        FINAL_NORM,
        "A text has one class, so one vector has to speak for all of it; pooling makes that of the vectors of its tokens.",
    ),
    "MultiTaskClassifier": (
        "Every data set has classes of its own; the rows of W_c and b_c that belong to them are its head.",
        "A text is of one data set, so only its classes compete; the encoder learns from all data sets.",
    ),
    "ECTraining": (
        EPOCHS,
        DATA,
        P_OF_THETA.format(5),
        "−log p is small where the model gave the true class much probability.",
        STEP,
        DATA_END,
        EPOCHS_END,
        TRAINED,
    ),
    "ECInference": (
        "The model does not name a class, it says how probable each is.",
        "Whoever asks wants one answer, and the most probable class is wrong least often.",
    ),
    "embed": (EMBED, COLUMNS),
    "BERT_embed": (
        "BERT reads two texts in one sequence; a vector for the segment tells a token which of them it belongs to.",
        "The sum of three vectors has no fixed scale, so it is normalized before the first layer reads it.",
    ),
    "MLP": (
        "Without a non-linearity two matrices would be no more than one; with it, each unit can react to a pattern of its own.",
        "What the units have found is brought back to the size of X, so that it can be added to it.",
    ),
    "RMSnorm": (
        "How large the components are is all that has to be divided out; leaving the mean alone saves work and costs little.",
        "Inputs of one scale keep layers in the range where they learn well; γ lets the network choose another scale.",
    ),
    "batch_norm": (
        "What is usual for a feature is measured over all tokens at hand, not over the features of one token.",
        "How far a feature usually strays from its mean says what a large value of it is.",
        "Every feature gets one scale over the tokens; γ and β let the network choose another. A token sees later ones through m and v.",
    ),
    "affine": ("In use there may be one token and no batch: m and v are constants by then, and have been absorbed into γ and β.",),
    "bos_pooling": ("The first token, bos, says nothing of the text itself, so its vector is free to gather what matters for the class.",),
    "mean_pooling": ("Every token has a say, the same for each, so that no single one has to gather it all.",),
    "max_pooling": ("One token that shows a feature strongly is enough, wherever it stands and however long the text is.",),
    "adversarial_loss": (
        "The loss of the text as it is, still a function of θ, for it is needed at two places.",
        "The gradient in the embeddings points to the change of the input that hurts most.",
        "Only the direction counts: ε says how far to go, however steep the loss is.",
        "A model that is right here too does not rest its answer on a thread.",
    ),
    "RelativeAttention": (
        QUERY,
        KEYS,
        VALUES,
        "What matters is how far apart two tokens are, not where they stand; sinusoids describe any distance, also unseen ones.",
        "The learned W_r says what a distance means to this head, in the space of its keys.",
        "A score has two parts, whether the content fits and whether the distance does; u and w let a head prefer some whatever the query.",
        "What a token may not see gets the score −∞, because softmax turns exactly that into the weight 0.",
        "Scores become shares that sum to 1 in each column, and each token takes that mixture of values.",
    ),
    "pre_norm": (
        PRE_NORM,
        "Here tokens learn from those that Mask lets them see; what they learn is added to X, so X keeps what it knew.",
        PRE_NORM,
        MLP_WHY,
    ),
    "post_norm": (
        "Here tokens learn from those that Mask lets them see; what they learn is added to X, so X keeps what it knew.",
        POST_NORM,
        MLP_WHY,
        POST_NORM,
    ),
    "pre_norm_decoder": (
        PRE_NORM,
        "A token of x learns from the tokens written before it, and from none after, for those are to be predicted.",
        PRE_NORM,
        "Here the output meets its source: queries come from x, keys and values from z, and nothing of z is hidden.",
        PRE_NORM,
        MLP_WHY,
    ),
    "post_norm_decoder": (
        "A token of x learns from the tokens written before it, and from none after, for those are to be predicted.",
        POST_NORM,
        "Here the output meets its source: queries come from x, keys and values from z, and nothing of z is hidden.",
        POST_NORM,
        MLP_WHY,
        POST_NORM,
    ),
    "GPT": (
        LENGTH,
        "A network computes with vectors, so tokens and positions become columns of X.",
        LAYERS,
        "All of a layer is one component, so that its inside, norms before or after, can be another without a change here.",
        LAYERS_END,
        FINAL_NORM,
        "Column t becomes a distribution over the token after x[t]; as no column sees its future, all are trained at once.",
    ),
    "encode": (
        LENGTH,
        "A network computes with vectors, so tokens, positions and segments become columns of X.",
        LAYERS,
        "Nothing is masked: the text is known in full, so every token may look at all others.",
        LAYERS_END,
        "One more non-linear map suits the vectors to what is read off them, so that the layers need not serve that end themselves.",
        FINAL_NORM,
    ),
    "BERT": (
        "The vectors are the same whatever is read off them, so the encoder is a function of its own.",
        "Each column becomes a distribution over the vocabulary: at a masked position, the model's guess of what stood there.",
    ),
    "BERTClassifier": (
        "The vectors are the same whatever is read off them, so the encoder is a function of its own.",
        "A text has one class, so one vector has to speak for all of it; pooling makes that of the vectors of its tokens.",
    ),
    "PreNormEDTransformer": (
        "The encoder's lines count over the tokens of z, so they need to know how many there are.",
        "A network computes with vectors, so the tokens of z and their positions become columns of Z.",
        "The encoder reads z in several rounds; each layer refines what the layers before have understood.",
        "Every token of z may look at all of z, for the source is known in full.",
        "The next layer reads the Z that this one leaves.",
        "With norms before the sub-layers Z grows with every layer, so it gets one scale before the decoder reads it.",
        "The same embedding serves x, so a token means the same on both sides.",
        "The decoder, too, works in rounds: each layer looks at what is written so far and at the source.",
        "A layer needs both: X, what is written so far, and Z, the source.",
        LAYERS_END,
        FINAL_NORM,
        UNEMBED,
    ),
    "unembed": (UNEMBED,),
    "biased_unembed": ("The bias lets frequent tokens be probable whatever the vector; the scores become probabilities that sum to 1.",),
}


def why_of(algorithm: Algorithm, line: Line) -> str:
    """Why a line is there; nothing for an algorithm that is not in the table."""
    sentences = WHY.get(algorithm.name, ())
    return sentences[line.number - 1] if line.number <= len(sentences) else ""
