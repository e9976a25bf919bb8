# What MPICH's generator of the C bindings (maint/local_python/binding_c.py) puts into each function for composite_calls.h.
import re

from local_python.binding_common import get_function_name

# They never wait, so that nobody asks what they were given.
AT_ONCE = r"MPI_(I(s|b|r)?send|Im?recv)$"

FUNCTIONS_MOST, NAME_MOST = 1024, 56    # as in composite_calls.h

numbers = {}                            # of functions, by name, from 1 on

# Besides those of coll_api.txt: all ranks of the communicator must call them in the same order.
COLLECTIVE = r"MPI_(Comm_(dup|dup_with_info|idup|idup_with_info|split|split_type|create|spawn|spawn_multiple|accept|connect)" \
             r"|Intercomm_(create|merge)|Cart_create|Cart_sub|Graph_create|Dist_graph_create|Dist_graph_create_adjacent" \
             r"|Win_(create|allocate|allocate_shared|create_dynamic|fence))$"


def first(func, kind, names=None):
    """The parameter of this kind that the caller gives, by one of these names where that matters."""
    for p in func['c_parameters']:
        if p['param_direction'].lower() != 'out' and re.match(kind, p['kind']) and (names is None or p['name'] in names):
            return p
    return None


def handle(p):
    """Functions that free something are given a pointer, which is checked later."""
    if p is None:
        return "0"
    return "(%s ? *%s : 0)" % (p['name'], p['name']) if p['param_direction'].lower() == 'inout' else p['name']


def is_one(p):
    return p is not None and not p['length']


def what_is_kept(func):
    """Members of MPIDI_COMPOSITE_kept, each with the flag that says it is there and its value."""
    if re.match(AT_ONCE, func['name']):
        return []
    kept = []
    on = first(func, r'COMMUNICATOR') or first(func, r'WINDOW$')
    if on is not None:
        kept.append(("OBJECT", "object", handle(on)))
    # What is counted is what leaves, or for those that only receive what comes.
    amount = first(func, r'(POLY)?XFER_NUM_ELEM', ('count', 'sendcount', 'origin_count'))
    datatype = first(func, r'DATATYPE', ('datatype', 'sendtype', 'origin_datatype'))
    group = first(func, r'GROUP$')
    if is_one(amount) and is_one(datatype):
        large = func['_is_large']
        kept.append((("LARGE_" if large else "") + "COUNT", "datatype", datatype['name']))
        kept.append((None, "large_count" if large else "count", amount['name']))
    elif is_one(group) and group['param_direction'] == 'in':
        kept.append(("GROUP", "group", group['name']))
    target = first(func, r'RANK', ('dest', 'root', 'rank', 'target_rank', 'remote_leader'))
    source = first(func, r'RANK', ('source',))
    tag = first(func, r'TAG', ('tag', 'sendtag'))
    from_tag = first(func, r'TAG', ('recvtag', 'tag'))
    for rank, its_tag, name in ((target, tag, ""), (source, from_tag, "source")):
        if is_one(rank):
            kept.append((name.upper() or "PEER", name or "peer", rank['name']))
            if is_one(its_tag):
                kept.append((name.upper() + "_TAG" if name else "TAG", name + "_tag" if name else "tag", its_tag['name']))
    requests = first(func, r'REQUEST')
    if requests is not None and requests['length']:
        kept += [("REQUESTS", "requests", requests['name']), (None, "requests_count", requests['length'])]
    elif requests is not None:
        by_address = requests['param_direction'].lower() == 'inout'
        kept += [("REQUESTS", "requests", ("" if by_address else "&") + requests['name']), (None, "requests_count", "1")]
    return kept


def call_begins(func):
    if func['dir'] == 'mpit':
        return "MPIR_FUNC_TERSE_ENTER;"
    name = get_function_name(func, func['_is_large'])
    number = numbers.setdefault(name, len(numbers) + 1)
    if number >= FUNCTIONS_MOST or len(name) >= NAME_MOST:
        raise Exception("composite_calls.h has no room for %s, function %d" % (name, number))
    kept = what_is_kept(func)
    keeps = " | ".join("MPIDI_COMPOSITE_KEEPS_" + flag for flag, _, _ in kept if flag) or "0"
    stores = ", ".join("its->%s = %s" % (member, given) for _, member, given in kept) or "(void) its"
    return 'MPIDI_COMPOSITE_CALL_BEGINS(%d, "%s", %s, (%s));' % (number, name, keeps, stores)


def call_ends(func):
    return "MPIR_FUNC_TERSE_EXIT;" if func['dir'] == 'mpit' else "MPIDI_COMPOSITE_call_end();"


def call_is_collective(func):
    """The order of collectives of a communicator is counted, once its handle is known to be good."""
    communicator, window = first(func, r'COMMUNICATOR'), first(func, r'WINDOW$')
    if (func['dir'] != 'coll' and not re.match(COLLECTIVE, func['name'])) or not (communicator or window):
        return ""
    return "MPIDI_COMPOSITE_CALL_IS_COLLECTIVE(%s);" % (communicator['name'] + "_ptr" if communicator else window['name'] + "_ptr->comm_ptr")
