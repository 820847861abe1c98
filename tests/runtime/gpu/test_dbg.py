import gc, weakref, numpy as np
def test_x(device, driver):
    array, stream = device.empty(4), device.stream()
    host = np.ones(4, np.float32)
    array.copy_from(host, stream=stream)
    driver.not_ready = True
    w=weakref.ref(stream)
    del stream
    gc.collect()
    def show(o,d=0):
        for r in gc.get_referrers(o):
            if type(r).__name__ in('frame','list') or d>2: 
                print('  '*d,type(r), str(r)[:150]); continue
            print('  '*d, type(r), str(r)[:200]); 
            show(r,d+1)
    print(w()); show(w()) if w() else None
    assert 0
